"""Batches for training, from any dataset, on any number of ranks.

This is the engine room of penstock.torch, and works without torch: batches are arrays of
numpy, or lists.

    dl = Loader(ds, batch_size=256, seed=7, shuffle="window:2GiB")
    for batch in dl: ...            # the rest of the current epoch; the next iter() is the next epoch
    state = dl.state_dict()         # counted where batches are consumed

The sequence of global batches depends on the dataset, seed, shuffle and global batch
alone: not on ranks, workers or where a run was interrupted.
"""

from __future__ import annotations

import functools
import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import index as as_index
from typing import Any

from penstock import agreement
from penstock.collate import batch_memory, collate
from penstock.dataset import Dataset
from penstock.decode import Decode, Decoder
from penstock.engine import Engine, Made, check_fields
from penstock.errors import Invalid, SampleError, Stale
from penstock.order import Policy
from penstock.processes import Processes
from penstock.schedule import Schedule
from penstock.stalls import Stalls
from penstock.state import Plan
from penstock.workers import Inline, Threads

__all__ = ["Loader"]

_REMEMBERED = 100  # errors


class Loader:
    """The batches of one rank. It is for one consumer; its dataset may be shared."""

    def __init__(
        self,
        dataset: Dataset,
        *,
        batch_size: int | None = None,
        global_batch: int | None = None,
        seed: int = 0,
        shuffle: str | bool | Policy = "window:2GiB",
        decode: Decode = "auto",
        transform: Callable[..., Any] | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        fields: Sequence[str] | None = None,
        num_workers: int = 0,
        workers: str = "process",
        prefetch: int = 2,
        multiprocessing_context: Any = None,
        drop_last: bool = True,
        pad: str = "drop",
        dp_rank: int | None = None,
        dp_size: int | None = None,
        on_error: str = "raise",
        _collate: Callable[..., Any] = collate,
    ) -> None:
        """See docs/guide/training.md. prefetch is how many batches each worker makes ahead."""
        if workers not in ("process", "thread"):
            raise Invalid(f'workers are "process" or "thread", not {workers!r}')
        if on_error not in ("raise", "substitute"):
            raise Invalid(f'on_error is "raise" or "substitute", not {on_error!r}')
        if num_workers < 0 or prefetch < 1:
            raise Invalid(f"num_workers {num_workers} and prefetch {prefetch} make no sense")
        agreement.check(dataset)
        check_fields(dataset, fields)
        rank, size = _ranks(dp_rank, dp_size)
        whole = _global_batch(batch_size, global_batch, size)
        policy = _policy(shuffle)
        seed = as_index(seed)
        if not 0 <= seed < 1 << 64:
            raise Invalid(f"seed {seed} is not from 0 to 2^64-1")
        decoder = Decoder(decode)
        self.dataset = dataset
        self.dp_rank, self.dp_size = rank, size
        self._plan = Plan(
            **dataset.identity, shuffle=str(policy), seed=seed, global_batch=whole, drop_last=bool(drop_last), pad=pad
        )
        self._schedule = Schedule(
            dataset.ordering(policy, seed), global_batch=whole, dp_rank=rank, dp_size=size, drop_last=drop_last, pad=pad
        )
        engine = Engine(
            dataset,
            self._schedule,
            seed=seed,
            decoder=decoder,
            transform=transform,
            collate=collate_fn or functools.partial(_collate, raw=decoder.raw, memory=batch_memory()),
            collate_mask=_collate,
            fields=fields,
            substitute=on_error == "substitute",
        )
        self._engine = engine
        self._crew: Inline | Threads | Processes
        if num_workers == 0:
            self._crew = Inline(engine)
        elif workers == "thread":
            self._crew = Threads(engine, num_workers, num_workers * prefetch)
        else:
            self._crew = Processes(engine, num_workers, num_workers * prefetch, multiprocessing_context)
        self._epoch = self._step = 0
        self._current: _Iteration | None = None
        self._stalls = Stalls()
        self.errors: deque[SampleError] = deque(maxlen=_REMEMBERED)  #: of samples that others were taken for
        self.substituted = 0  #: how many those were

    def __repr__(self) -> str:
        return f"<Loader of {self.dataset}: {len(self)} batches, at epoch {self.epoch}, step {self.step}>"

    def __len__(self) -> int:
        """The number of batches in an epoch, the same on all ranks."""
        return len(self._schedule)

    @property
    def epoch(self) -> int:
        """The current epoch; that of the last batch until the next one begins."""
        return self._epoch

    @property
    def step(self) -> int:
        """How many batches of the current epoch were consumed."""
        return self._step

    @property
    def global_batch(self) -> int:
        """Samples in a batch of all ranks together."""
        return self._plan.global_batch

    @property
    def batch_size(self) -> int:
        """Samples in a batch of this rank."""
        return self._plan.global_batch // self.dp_size

    def __iter__(self) -> Iterator[Any]:
        """The rest of the current epoch, or the next one if it is at its end."""
        if self._step >= len(self):
            self._epoch, self._step = self._epoch + 1, 0
        self._leave()
        self._current = _Iteration(self)
        return self._current

    def state_dict(self) -> dict[str, Any]:
        """Where the run is: the same on all ranks, a few plain values. Batches that were consumed are behind it."""
        if self._step >= len(self):
            return self._plan.state(self._epoch + 1, 0)
        return self._plan.state(self._epoch, self._step * self._plan.global_batch)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken, on this or any other number of ranks. Stale says what does not fit."""
        epoch, position = self._plan.load(state)
        step, rest = divmod(position, self._plan.global_batch)
        if rest or step > self._schedule.full + 1:
            raise Stale(f"the state does not fit this loader: its position {position} is not the end of a global batch")
        self._leave()
        self._epoch, self._step = epoch, step

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch. In the middle of that epoch nothing changes: what was consumed stays so."""
        epoch = as_index(epoch)
        if epoch < 0:
            raise Invalid(f"epoch {epoch} is below zero")
        if epoch != self._epoch or self._step >= len(self):
            if self._current is not None and self._current.begun:
                self._leave()
            self._epoch, self._step = epoch, 0

    @property
    def sampler(self) -> Loader:
        """The loader itself: Lightning tells the epoch to what a loader has under this name."""
        return self

    #: What has a sampler is asked for this as well, by Lightning before a validation.
    batch_sampler = None

    def batch_at(self, epoch: int, step: int) -> Any:
        """Any batch of any epoch, computed here and now: what this rank gets, got or will get."""
        return self._engine.make(epoch, step if step >= 0 else step + len(self)).batch

    def samples_at(self, epoch: int, step: int) -> list[int]:
        """The numbers of the samples of a batch, as the dataset has them, without reading them."""
        return self._schedule.share(epoch, step).samples

    def stalls(self) -> dict[str, Any]:
        """How long the consumer waited for batches, in seconds, and for which stage of their making."""
        return self._stalls.report()

    def close(self) -> None:
        """End the workers. The loader stays usable: the next iteration starts others."""
        self._leave()
        self._crew.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _leave(self) -> None:
        """End the iteration that is under way, if there is one."""
        if self._current is not None:
            self._current.close()
            self._current = None

    def _tasks(self) -> Iterator[tuple[int, int]]:
        epoch = self._epoch
        return ((epoch, step) for step in range(self._step, len(self)))

    def _note(self, errors: list[SampleError]) -> None:
        first = not self.substituted
        self.substituted += len(errors)
        self.errors.extend(errors)
        if errors and first:  # last, because it raises where warnings are errors
            warnings.warn(
                f"others are taken for samples that cannot be read, first: {errors[0]}", RuntimeWarning, stacklevel=4
            )


class _Iteration(Iterator[Any]):
    """One pass over the rest of an epoch. It begins with its first batch: until then set_epoch may still move it."""

    def __init__(self, loader: Loader) -> None:
        self._loader: Loader | None = loader
        self._batches: Iterator[Made] | None = None
        self._over = False

    @property
    def begun(self) -> bool:
        return self._batches is not None

    def __next__(self) -> Any:
        loader = self._loader
        if self._over:
            raise StopIteration
        if loader is None:
            raise Invalid("this iteration has ended, because the loader was moved, closed, or another one was begun")
        asked = time.monotonic()
        try:
            if self._batches is None:
                self._batches = loader._crew.run(loader._tasks())
            made = next(self._batches)
            loader._note(made.replaced)  # before the step: if it raises, the batch was not consumed
        except StopIteration:
            # The epoch is over when the loop is, so that epoch and step still tell of it in the loop's last round.
            loader._epoch, loader._step = loader._epoch + 1, 0
            self._over, self._loader, loader._current = True, None, None
            raise
        except BaseException:
            loader._current = None
            self.close()
            raise
        loader._stalls.add(asked, made)
        loader._step += 1
        return made.batch

    def close(self) -> None:
        self._loader = None
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()


def _ranks(rank: int | None, size: int | None) -> tuple[int, int]:
    if (rank is None) != (size is None):
        raise Invalid("dp_rank and dp_size are given together")
    if rank is None or size is None:
        try:
            rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        except ValueError:
            raise Invalid("RANK and WORLD_SIZE in the environment are not numbers") from None
    return as_index(rank), as_index(size)


def _global_batch(batch_size: int | None, global_batch: int | None, dp_size: int) -> int:
    if (batch_size is None) == (global_batch is None):
        raise Invalid("pass batch_size=, which is per rank, or global_batch=")
    if batch_size is not None:
        return as_index(batch_size) * dp_size
    assert global_batch is not None
    return as_index(global_batch)


def _policy(shuffle: str | bool | Policy) -> Policy:
    if isinstance(shuffle, Policy):
        return shuffle
    if isinstance(shuffle, bool):
        shuffle = "window:2GiB" if shuffle else "none"
    return Policy.parse(shuffle)
