"""What the ranks of all frameworks have in common: the data, and how they tell what they were given."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed

ORDER: dict[str, Any] = {"global_batch": 24, "seed": 11, "shuffle": "window:60KiB"}  # 12 batches in an epoch of 300


def augment(sample: dict[str, Any], rng: Any) -> dict[str, Any]:
    """A transform with chance in it, from two generators."""
    data = torch.frombuffer(bytearray(bytes(sample["bin"][:16]).ljust(16, b"\0")), dtype=torch.uint8)
    noise = torch.rand(16, generator=rng.torch)
    return {"index": sample["__index__"], "x": data / 255 + noise + rng.random(), "labels": sample["cls"]}


class Net(torch.nn.Module):
    """Enough to be trained."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.line = torch.nn.Linear(16, 3)

    def forward(self, x: torch.Tensor, labels: torch.Tensor, index: Any = None) -> dict[str, torch.Tensor]:
        logits = self.line(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


class Rank:
    """This process, as the test sees it."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.options = json.loads(sys.argv[1])
        self.home, self.out = self.options["home"], Path(self.options["out"])
        self.steps, self.every = self.options["steps"], self.options["every"]
        self.rank, self.size = int(os.environ["TEST_RANK"]), int(os.environ["TEST_SIZE"])

    def got(self, step: int, batch: dict[str, Any], share: tuple[int, int] | None = None) -> None:
        """Keep what was given for a step. share is which part of the global batch it ought to be."""
        part, parts = share or (self.rank, self.size)
        path = self.out / f"{self.options['run']}-{step:04}-{part}-{parts}-{self.rank}"
        torch.save({name: batch[name] for name in ("index", "x", "labels")}, f"{path}.part")
        os.rename(f"{path}.part", f"{path}.pt")

    def done(self, count: int) -> None:
        """So many steps are behind us. At the one that the test named, wait to be killed."""
        if self.rank == 0:
            print("done", count, flush=True)
        if count == self.options["stop"]:
            sys.stdin.read()
            raise SystemExit("nobody killed it")

    def save(self, state: dict[str, Any]) -> None:
        """A checkpoint of our own, for frameworks without."""
        if self.rank == 0:
            torch.save(state, self.out / "checkpoint.new")
            os.rename(self.out / "checkpoint.new", self.out / "checkpoint")

    def saved(self) -> dict[str, Any] | None:
        path = self.out / "checkpoint"
        return torch.load(path) if path.exists() else None

    def newest(self, pattern: str) -> Path | None:
        """The last of a framework's checkpoints, by the number at the end of its name."""
        found = sorted(self.out.glob(pattern), key=lambda path: int(path.stem.rpartition("-")[2]))
        return found[-1] if found else None
