"""What is compared: which dataset, whose loader, which shuffle."""

from __future__ import annotations

from typing import NamedTuple


class Variant(NamedTuple):
    """A way to get the samples into an order."""

    title: str
    dataset: str  #: a directory that prepare.py makes
    loader: str  #: "penstock" or "webdataset"
    shuffle: str  #: a policy, or the bytes that a shuffle buffer holds


VARIANTS = {
    "full": Variant("full", "sorted", "penstock", "full"),
    "window-4m": Variant("window:4MiB", "sorted", "penstock", "window:4MiB"),
    "webdataset-4m": Variant("WebDataset, buffer of 4 MiB", "sorted", "webdataset", "4MiB"),
    "chunks-4m": Variant("window:4MiB, chunks of 16 KiB", "chunks", "penstock", "window:4MiB"),
    "permuted-4m": Variant("window:4MiB, permuted when packed", "permuted", "penstock", "window:4MiB"),
    "fine-4m": Variant("WebDataset, buffer of 4 MiB, small shards", "fine", "webdataset", "4MiB"),
    "window-1m": Variant("window:1MiB", "sorted", "penstock", "window:1MiB"),
    "fine-1m": Variant("WebDataset, buffer of 1 MiB, small shards", "fine", "webdataset", "1MiB"),
    "window-256k": Variant("window:256KiB", "sorted", "penstock", "window:256KiB"),
    "permuted-256k": Variant("window:256KiB, permuted when packed", "permuted", "penstock", "window:256KiB"),
    "none": Variant("none", "sorted", "penstock", "none"),
}

MAIN = ("full", "window-4m", "chunks-4m", "webdataset-4m")


def plan(seeds: int, more: int) -> list[tuple[str, int]]:
    """All runs, the most important ones first: the main variants get `more` seeds in the end."""
    rest = [name for name in VARIANTS if name not in MAIN]
    runs = [(name, seed) for seed in range(1, seeds + 1) for name in MAIN]
    runs += [(name, seed) for name in rest[:3] for seed in range(1, seeds + 1)]
    runs += [(name, seed) for seed in range(seeds + 1, seeds + more + 1) for name in MAIN]
    return runs + [(name, seed) for name in rest[3:] for seed in range(1, seeds + 1)]
