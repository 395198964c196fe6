"""One version for all ranks of a job.

A name without a version is the newest one. Ranks that look it up while another version is
published would find different ones, and train on different samples without noticing. So
what the first rank finds is noted in the store by which torch's ranks have found each
other, and the others take that. Nobody waits for anybody: a rank may open what others do
not. Without torch.distributed there is nobody to agree with.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

from penstock.dataset import Dataset
from penstock.errors import Stale, Unavailable
from penstock.table import Table

__all__ = ["agree", "check"]

_WAIT = 60.0  # seconds for the rank that keeps the store, unless the store says less
_CANNOT = ("not implemented", "not support", "internal assert failed")  # what stores say that have no compare_set

_inherited: Any = None  # the ranks of the process that this one was forked from: their connection cannot be shared


def _ranks() -> Any:
    """The ranks that have found each other, None if none have."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.group.WORLD


def _forked() -> None:
    global _inherited
    _inherited = _ranks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _store() -> Any:
    """What the ranks of a job share, None if there is nothing."""
    ranks = _ranks()
    if ranks is None or ranks is _inherited:
        return None
    from torch.distributed import distributed_c10d

    return distributed_c10d._get_default_store()


def agree(key: Callable[[], str], version: int, hash: str) -> tuple[int, str]:
    """The version, and the hash of its samples, that the first rank of the job has found under what key gives."""
    store = _store()
    if store is None:
        return version, hash
    name = key()
    try:
        said = _note(store, f"penstock/{name}", f"{version} {hash}")
    except RuntimeError as error:
        if any(words in str(error).lower() for words in _CANNOT):
            return version, hash  # a store that is none, as of ranks that are only pretended
        # The rank that keeps it is gone.
        raise Unavailable(f"which version of {name} the other ranks use cannot be found out: {error}") from error
    if said is None:
        raise Unavailable(f"which version of {name} the other ranks use cannot be found out: rank 0 does not answer")
    number, _, other = said.decode().partition(" ")
    return int(number), other


def _note(store: Any, key: str, mine: str) -> bytes | None:
    """What the store has under a key, which is this if it had nothing; None if it does not answer."""
    answers: queue.SimpleQueue[bytes | BaseException] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(store.compare_set(key, "", mine))
        except BaseException as error:
            answers.put(error)

    # In a thread, because some versions of torch wait for ever for a process that is stopped.
    threading.Thread(target=ask, name="penstock-agree", daemon=True).start()
    try:
        answer = answers.get(timeout=min(_WAIT, _patience(store)))
    except queue.Empty:
        return None
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _patience(store: Any) -> float:
    try:
        return float(store.timeout.total_seconds())
    except (AttributeError, RuntimeError):  # a store that is none
        return _WAIT


def check(dataset: Dataset) -> None:
    """Raise Stale if another rank has found another version under a name that was opened without one."""
    for part in getattr(dataset, "parts", ()):
        check(part)
    if hasattr(dataset, "parent"):
        check(dataset.parent)
    if isinstance(dataset, Table) and dataset.floating:
        version, hash = agree(dataset.floating, dataset.version, dataset.hash)
        if hash != dataset.hash:
            raise Stale(
                f"another rank has opened {dataset.name}@{version} with the samples {hash[:12]}, not {dataset} with "
                f"{dataset.hash[:12]}: open {dataset.name}@{version}, or open it behind torch.distributed.init_process_group"
            )
