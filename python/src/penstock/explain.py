"""What to expect of a dataset before a run: how fast it comes, what limits it, and how well it is mixed.

The rates are measured here and now, on some batches of the first epoch, by one worker; what is in the
page cache or a node's memory by then comes faster than what is not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.dataset import Dataset, Ordering
from penstock.decode import Decode, Decoder
from penstock.errors import SampleError
from penstock.order import Policy, ranges

__all__ = ["Explanation", "explain"]

_BATCHES = 100  # that are looked at for the mixing
_PRETENDED = 1000  # classes, where a dataset has none


@dataclass(frozen=True)
class Explanation:
    """What is to be expected. Its text says all of it."""

    samples: int
    shuffle: str
    batch: int
    classes: float  #: different classes in a batch, on average
    worst: int  #: in the batch with the fewest
    full: float  #: on average, if everything were mixed with everything
    pretended: bool  #: the dataset has no classes: samples were taken for sorted into 1000 of them
    costs: dict[str, float] = field(default_factory=dict)  #: seconds a sample, of one worker, by stage
    workers: int = 1
    size: float = 0.0  #: bytes a sample

    @property
    def rate(self) -> float:
        """Samples a second, 0 if it was not measured."""
        return self.workers / sum(self.costs.values()) if self.costs else 0.0

    @property
    def ceiling(self) -> str:
        """The stage that takes most."""
        return max(self.costs, key=self.costs.__getitem__) if self.costs else ""

    @property
    def mixing(self) -> str:
        """How well batches are mixed, in words."""
        kind = "classes, if it were sorted by 1000 of them" if self.pretended else "classes"
        return f"{self.classes:.1f} {kind} in a batch of {self.batch}, {self.worst} in the worst; a full shuffle has {self.full:.1f}"

    def __str__(self) -> str:
        lines = [f"{self.samples:,} samples, shuffle {self.shuffle}: {self.mixing}"]
        if self.costs:
            each = ", ".join(f"{name} {cost * 1e6:.0f} us" for name, cost in self.costs.items())
            lines.append(
                f"{self.rate:,.0f} samples a second with {self.workers} worker{'s'[: self.workers > 1]} "
                f"({self.rate * self.size / 1e6:,.0f} MB/s); {self.ceiling} takes most: {each} a sample"
            )
        return "\n".join(lines)


def explain(
    dataset: Dataset,
    *,
    batch_size: int = 256,
    shuffle: str | Policy = "window:2GiB",
    seed: int = 0,
    decode: Decode = "auto",
    num_workers: int = 1,
    measure: bool | float = True,
) -> Explanation:
    """What Dataset.explain returns. measure is for how many seconds batches are read; True is one."""
    policy = Policy.parse(shuffle) if isinstance(shuffle, str) else shuffle
    ordering = dataset.ordering(policy, seed)
    batch = max(min(batch_size, ordering.length), 1)
    of, pretended = _classes(dataset)
    found = _distinct(ordering, of, batch)
    full = _distinct(dataset.ordering(Policy("full"), seed), of, batch)
    costs: dict[str, float] = {}
    size = 0.0
    if measure and found:
        costs, size = _measured(dataset, ordering, Decoder(decode), batch, 1.0 if measure is True else float(measure))
    return Explanation(
        samples=len(dataset),
        shuffle=str(policy),
        batch=batch,
        classes=sum(found) / max(len(found), 1),
        worst=min(found, default=0),
        full=sum(full) / max(len(full), 1),
        pretended=pretended,
        costs=costs,
        workers=min(num_workers, os.cpu_count() or 1) or 1,
        size=size,
    )


def _classes(dataset: Dataset) -> tuple[Callable[[list[int]], list[Any]], bool]:
    """What gives the classes of samples, and whether they are made up."""
    if "cls" in dataset.columns:
        return lambda numbers: [s.get("cls") for s in dataset.get(numbers, fields=["cls"])], False
    _, of = ranges(len(dataset), _PRETENDED)
    return lambda numbers: [of(number) for number in numbers], True


def _distinct(ordering: Ordering, of: Callable[[list[int]], list[Any]], batch: int) -> list[int]:
    """How many classes there are in each of some batches, the first and others evenly over the epoch."""
    every = ordering.length // batch
    count = min(every, _BATCHES)
    starts = [i * every // count * batch for i in range(count)]
    return [len(set(of(ordering.read(0, range(start, start + batch))))) for start in starts]


def _measured(
    dataset: Dataset, ordering: Ordering, decoder: Decoder, batch: int, seconds: float
) -> tuple[dict[str, float], float]:
    costs = {"order": 0.0, "fetch": 0.0, "decode": 0.0}
    done = size = at = 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not done:
        start = at % max(ordering.length - batch + 1, 1)
        at += batch
        times = [time.perf_counter()]
        numbers = ordering.read(0, range(start, start + batch))
        times.append(time.perf_counter())
        samples = dataset.read(numbers, None)
        times.append(time.perf_counter())
        for sample in samples:
            if isinstance(sample, SampleError):
                raise sample
            for name, value in sample.items():
                if isinstance(value, memoryview):
                    size += len(value)
                    decoder(name, value)
        times.append(time.perf_counter())
        for stage, (a, b) in zip(costs, zip(times, times[1:])):
            costs[stage] += b - a
        done += len(samples)
    return {stage: cost / done for stage, cost in costs.items()}, size / done
