#!/usr/bin/env python3
"""Samples a second out of a dataset, beside plain files and, if there is one, a node.

    python bench/loader.py                           # directory and files
    python bench/loader.py --endpoint URL            # and a node
    python bench/loader.py --workers 2 --loader      # whole batches of tensors, by kind of worker

Everything is read in random batches, out of the page cache, and checked against its
CRC-32. The contenders take turns, so that noise of the machine hits all of them; what is printed is
the median of the turns.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import penstock
from penstock.loader import Loader

WORKLOADS = [(256, 4 << 10, 8192), (64, 128 << 10, 1024)]  # samples a batch, bytes a sample, samples in all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoint", default=None, help="of a running node")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn")
    parser.add_argument("--loader", action="store_true", help="measure loaders, not single reads")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    top = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        print(f"{'samples':>16}  {'':28} {'samples/s':>10} {'GB/s':>6} {'us cpu':>8}")
        for batch, size, count in WORKLOADS:
            workload(top, batch, size, count, options)
    finally:
        shutil.rmtree(top)


def workload(top: Path, batch: int, size: int, count: int, options: argparse.Namespace) -> None:
    data = {f"{i:06}": os.urandom(size) for i in range(count)}
    sums = {key: crc32(value) for key, value in data.items()}
    folder, files = top / f"{size}", top / f"{size}-files"
    files.mkdir()
    with penstock.create("bench", to=folder) as w:
        for key, value in data.items():
            w.add(key, {"bin": value})
            (files / key).write_bytes(value)
    ds = penstock.open(folder)
    keys = list(data)

    def plain(numbers: list[int]) -> list[bytes]:
        values = [(files / keys[i]).read_bytes() for i in numbers]
        for i, value in zip(numbers, values):
            assert crc32(value) == sums[keys[i]]
        return values

    readers: dict[str, Callable[[list[int]], object]] = {"files": plain, "directory": ds.get}
    undo: list[Callable[[], object]] = []
    if options.endpoint:
        client = penstock.Client(options.endpoint)
        bucket = f"bench-{os.getpid()}-{size}"
        client.create_bucket(bucket)
        with penstock.create(bucket, bucket=bucket, client=client) as w:
            for key, value in data.items():
                w.add(key, {"bin": value})
        readers["node"] = penstock.open(bucket, client=client).get
    if options.loader:
        readers = loaders(ds, batch, options.workers, undo)
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in readers}
    for turn in range(options.turns + 1):
        for name, read in readers.items():
            rate = measure(read, count, batch, options.seconds if turn else 0.2)
            if turn:
                results[name].append(rate)
    for name, rates in results.items():
        rate, cpu = (statistics.median(values) for values in zip(*rates))
        print(
            f"{f'{batch} x {size >> 10} KiB':>16}  {name:28} {rate:10,.0f} {rate * size / 1e9:6.2f} {cpu * 1e6:8.1f}",
            flush=True,
        )
    for act in undo:
        act()


def loaders(
    ds: penstock.Dataset, batch: int, workers: int, undo: list[Callable[[], object]]
) -> dict[str, Callable[[list[int]], object]]:
    found: dict[str, Callable[[list[int]], object]] = {}
    for name, options in {
        "inline": {},
        f"{workers} threads": {"num_workers": workers, "workers": "thread"},
        f"{workers} processes": {"num_workers": workers},
    }.items():
        loader = Loader(ds, batch_size=batch, decode="raw", **options)  # type: ignore[arg-type]
        undo.append(loader.close)
        batches = iter(())

        def read(_: list[int], loader: Loader = loader, box: list[object] = [batches]) -> None:
            try:
                next(box[0])  # type: ignore[call-overload]
            except (StopIteration, penstock.Invalid):
                box[0] = iter(loader)
                next(box[0])  # type: ignore[call-overload]

        found[name] = read
    return found


def measure(read: Callable[[list[int]], object], count: int, batch: int, seconds: float) -> tuple[float, float]:
    """Samples a second, and processor time a sample in this process."""
    done, cpu, begin = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() - begin < seconds:
        read(random.choices(range(count), k=batch))
        done += batch
    return done / (time.perf_counter() - begin), (time.process_time() - cpu) / done


if __name__ == "__main__":
    main()
