"""Batches of images and labels, from either loader, in a worker process of its own."""

from __future__ import annotations

import glob
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import torch
from prepare import PIXELS
from variants import Variant

import penstock
from penstock.order import Policy
from penstock.torch import loader

Batch = tuple[torch.Tensor, torch.Tensor]  # images of shape (n, 28, 28), labels
Feed = Callable[[int], Iterator[Batch]]  # the batches of an epoch, by its number


def feed(folder: Path, variant: Variant, batch: int, seed: int, workers: int = 1) -> Feed:
    """The batches of a variant. The last samples of an epoch, which fill no batch, are left out by both loaders."""
    make = from_penstock if variant.loader == "penstock" else from_webdataset
    return make(folder / variant.dataset, variant.shuffle, batch, seed, workers)


def from_penstock(folder: Path, shuffle: str, batch: int, seed: int, workers: int) -> Feed:
    """Through penstock.torch.loader; the dataset is a directory, so there is no server."""
    batches = loader(
        penstock.open(folder), batch_size=batch, seed=seed, shuffle=shuffle, decode="raw", num_workers=workers, prefetch=8
    )

    def epoch(number: int) -> Iterator[Batch]:
        batches.set_epoch(number)
        for b in batches:
            yield b["bin"].data.view(-1, 28, 28), b["cls"]

    return epoch


def from_webdataset(folder: Path, size: str, batch: int, seed: int, workers: int) -> Feed:
    """Through WebDataset: shards in random order, then a buffer of as many samples as there are in `size` bytes.

    The buffer is filled before the first sample is taken (initial), which is better than its default. There is
    one worker, or none: more would divide the buffer.
    """
    import webdataset as wds
    from torch.utils.data import DataLoader

    shards = sorted(glob.glob(f"{folder}/000001/*.tar"))
    samples = Policy.parse(f"window:{size}").resident // PIXELS

    def epoch(number: int) -> Iterator[Batch]:
        rng = random.Random(f"{seed} {number}")
        pipeline = wds.DataPipeline(
            wds.SimpleShardList(shards),
            wds.shuffle(len(shards), initial=len(shards), rng=rng),
            wds.tarfile_to_samples(),
            wds.shuffle(samples, initial=samples, rng=rng),
            wds.to_tuple("bin", "cls"),
            wds.batched(batch, collation_fn=stack, partial=False),
        )
        ahead: dict[str, Any] = {"num_workers": 1, "prefetch_factor": 8} if workers else {}
        yield from DataLoader(pipeline, batch_size=None, **ahead)

    return epoch


def stack(samples: list[tuple[bytes, bytes]]) -> Batch:
    """A batch of what tar members hold."""
    images, labels = zip(*samples)
    pixels: Any = numpy.frombuffer(bytearray(b"").join(images), numpy.uint8)
    return torch.from_numpy(pixels).view(-1, 28, 28), torch.tensor([int(label) for label in labels])


def whole(folder: Path) -> Batch:
    """All samples of a dataset, in its order."""
    with loader(penstock.open(folder), batch_size=1000, shuffle="none", decode="raw", drop_last=False) as batches:
        found = [(b["bin"].data.view(-1, 28, 28), b["cls"]) for b in batches]
    images, labels = zip(*found)
    return torch.cat(images), torch.cat(labels)
