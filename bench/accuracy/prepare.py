#!/usr/bin/env python3
"""Makes the datasets of the study out of Fashion-MNIST, in directories.

    python prepare.py SOURCE DIR [--limit N]

SOURCE holds the four files as they are published (Debian: dataset-fashion-mnist, in
/usr/share/datasets/fashion-mnist). DIR gets

    sorted      all of the first class, then all of the second, ...; shards of 8 chunks
    chunks      the same with chunks of a quarter, so that a window has four times as many
    fine        the same as the first with shards of one chunk, which suits a shuffle buffer best
    permuted    in a random order, as `penstock dataset create` packs by default
    test        the 10,000 test images

A sample is 784 bytes, one a pixel, and its class. Both loaders read the same shards.
"""

from __future__ import annotations

import argparse
import gzip
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import penstock

CLASSES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
PIXELS = 28 * 28
CHUNK = 64 << 10  # bytes of images
IN_TAR = 2560  # bytes that a sample takes in a shard: two heads, 784 bytes and a digit, in blocks of 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("dir", type=Path)
    parser.add_argument("--limit", type=int, default=60000, help="how many samples to train with")
    options = parser.parse_args()
    prepare(options.source, options.dir, options.limit)


def prepare(source: Path, folder: Path, limit: int = 60000) -> None:
    """Write the datasets."""
    folder.mkdir(parents=True, exist_ok=True)
    images, labels = read(source, "train")
    by_class = sorted(range(min(limit, len(labels))), key=lambda i: labels[i])  # stable
    anyhow = list(by_class)
    random.Random(1).shuffle(anyhow)
    tests = read(source, "t10k")
    with ProcessPoolExecutor(4) as pool:
        for done in [
            pool.submit(write, folder / "sorted", images, labels, by_class, 8),
            pool.submit(write, folder / "chunks", images, labels, by_class, 32, CHUNK // 4),
            pool.submit(write, folder / "fine", images, labels, by_class, 1),
            pool.submit(write, folder / "permuted", images, labels, anyhow, 8),
            pool.submit(write, folder / "test", *tests, range(min(limit, len(tests[1]))), 8),
        ]:
            done.result()


def read(source: Path, part: str) -> tuple[bytes, bytes]:
    """Images and labels. Each file begins with a head of 16 or 8 bytes."""
    with gzip.open(source / f"{part}-images-idx3-ubyte.gz") as images:
        with gzip.open(source / f"{part}-labels-idx1-ubyte.gz") as labels:
            found = images.read()[16:], labels.read()[8:]
    if len(found[0]) != PIXELS * len(found[1]):
        raise SystemExit(f"{source}: {part} is not complete")
    return found


def write(to: Path, images: bytes, labels: bytes, order: Sequence[int], chunks: int, chunk: int = CHUNK) -> None:
    """Write a dataset in the order given, with so many chunks in a shard."""
    shard = chunks * round(chunk / PIXELS) * IN_TAR
    with penstock.create(to.name, to=to, classes={"cls": CLASSES}, chunk_size=chunk, shard_size=shard) as w:
        for i in order:
            name = CLASSES[labels[i]]
            w.add(f"{name}/{i:05}", {"bin": images[i * PIXELS : (i + 1) * PIXELS], "cls": name})


if __name__ == "__main__":
    main()
