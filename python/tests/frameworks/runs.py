"""Runs of several ranks that are killed, and go on with other numbers of ranks."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import torch
from datasets import write
from rank import ORDER, augment

import penstock
from penstock.torch import loader

DEADLINE = 240.0  # seconds for one run
STEPS = 36  # three epochs

# Ranks, the step that they begin with, and the one after which they are killed. Checkpoints are made after every
# fourth step, so that the second is in the middle of an epoch, the third at the end of one.
PLAN = [(2, 0, 6), (1, 4, 13), (2, 12, 22), (1, 20, 0)]


def dataset(directory: Path) -> Path:
    return write(directory, 300)


class Run:
    """A training run on several processes. Its ranks end when it is left, whatever happens."""

    def __init__(self, script: str, size: int, *, launched: bool = True, **options: Any) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.errors = [tempfile.TemporaryFile("w+") for _ in range(size)]
        command = [sys.executable, "-W", "ignore", Path(__file__).with_name(script), json.dumps(options)]
        self.ranks = []
        for rank in range(size):
            environment = {
                **os.environ, "TEST_RANK": str(rank), "TEST_SIZE": str(size), "LOCAL_RANK": str(rank),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1",
                "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false",
            }  # fmt: skip
            if launched:  # as torchrun does; not all frameworks are started with it
                environment.update(RANK=str(rank), WORLD_SIZE=str(size))
            self.ranks.append(
                subprocess.Popen(
                    command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors[rank],
                    text=True, cwd=options["out"],
                )  # fmt: skip
            )
        self._late = threading.Timer(DEADLINE, self.kill)

    def __enter__(self) -> Run:
        self._late.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._late.cancel()
        self._late.join()
        self.kill()
        for process in self.ranks:
            process.communicate(timeout=60)  # which waits for the workers as well: they have our end of the pipe
        for file in self.errors:
            file.close()

    def kill(self) -> None:
        for process in self.ranks:
            process.send_signal(signal.SIGKILL)

    def wait_for(self, step: int) -> None:
        """Until the first rank says that it has done a step, and waits."""
        out = self.ranks[0].stdout
        assert out is not None
        if not any(line.strip() == f"done {step}" for line in out):
            raise AssertionError(f"it never came to step {step}: {self.said()}")

    def finish(self) -> str:
        """What the first rank said."""
        out, _ = self.ranks[0].communicate(timeout=DEADLINE)
        for process in self.ranks:
            process.wait(timeout=DEADLINE)
        assert [process.returncode for process in self.ranks] == [0] * len(self.ranks), self.said()
        return out

    def said(self) -> str:
        self.kill()
        text = ""
        for rank, file in enumerate(self.errors):
            self.ranks[rank].wait(timeout=60)
            file.seek(0)
            text += f"\nrank {rank}: {file.read()[-3000:]}"
        return text


def killed_and_resumed(
    script: str,
    home: Path,
    out: Path,
    *,
    plan: list[tuple[Any, int, int]] | None = None,
    every: int = 4,
    **options: Any,
) -> None:
    """Run a plan, and compare all that all ranks were given with what a loader on one rank computes."""
    plan = PLAN if plan is None else plan
    for run, (shape, _, stop) in enumerate(plan):
        size = shape if isinstance(shape, int) else shape[0] * shape[1]
        every_run = {"home": str(home), "out": str(out), "steps": STEPS, "every": every, "run": run, "stop": stop}
        with Run(script, size, **every_run, shape=shape, **options) as ranks:
            if stop:
                ranks.wait_for(stop)
            else:
                ranks.finish()
    compare(home, out, plan)


def compare(home: Path, out: Path, plan: list[tuple[Any, int, int]]) -> None:
    expected = loader(penstock.open(home), transform=augment, dp_rank=0, dp_size=1, **ORDER)
    assert len(expected) == 12
    steps: dict[tuple[int, int], set[int]] = {}  # by run and rank
    for path in sorted(out.glob("*.pt")):
        run, step, part, parts, rank = map(int, path.stem.split("-"))
        steps.setdefault((run, rank), set()).add(step)
        batch, whole = torch.load(path), expected.batch_at(*divmod(step, len(expected)))
        for name in ("index", "x", "labels"):
            assert content(batch[name]) == content(whole[name][part::parts]), f"{path.name}: {name} differs"
    for run, (shape, start, stop) in enumerate(plan):
        ranks = range(shape if isinstance(shape, int) else shape[0] * shape[1])
        assert steps[run, 0] == set(range(start, stop or STEPS)), f"run {run} had the steps {sorted(steps[run, 0])}"
        for rank in ranks:  # what another rank was given when the first one was killed, nobody knows
            assert steps[run, rank] >= set(range(start, (stop or STEPS) - 1)), f"run {run}, rank {rank}"


def content(tensor: Any) -> tuple[Any, ...]:
    """A tensor, to the last bit."""
    return tensor.dtype, tuple(tensor.shape), tensor.contiguous().numpy().tobytes()
