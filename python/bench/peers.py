#!/usr/bin/env python3
"""Penstock beside others that read samples for training, over the same data on the same disk.

    bench/python/run.sh                              # makes an environment that has all of them, and runs this
    python python/bench/peers.py --jobs requests,passes --rounds 5

The jobs:

    requests   random samples, a batch at a time, one reader: over TCP and out of directories
    passes     all samples as batches of bytes, shuffled and in their order, one reader, no server
    loaders    all samples as batches of tensors, shuffled, two workers
    images     the same with JPEG decoding and a random crop, beside the decoding alone

Everyone reads local files: no compression, no checksums, workers that persist. Penstock alone checks every byte it reads. Data is in the page cache. What is not installed is named and left out.
Starts a node (PENSTOCK_BINARY, or bin/penstock) and redis-server, and ends them; everything is in a temporary directory.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import contenders
import penstock
from turns import Contender, compare

SHAPES = {"4k": (256, 4 << 10, 32768), "128k": (64, 128 << 10, 4096)}  # samples a batch, bytes a sample, samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", default="requests,passes,loaders,images")
    parser.add_argument("--shapes", default="4k,128k")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn at requests")
    parser.add_argument("--only", default="", help="contenders whose name has one of these words; the first one stays")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    jobs = options.jobs.split(",")
    only = [word for word in options.only.split(",") if word]

    def run(title: str, all_of_them: Iterable[Contender], size: int, seconds: float | None = None) -> None:
        some = [c for i, c in enumerate(all_of_them) if i == 0 or not only or any(word in c.name for word in only)]
        compare(title, some, size=size, rounds=options.rounds, seconds=seconds)

    missing = contenders.missing()
    if missing:
        print(f"not installed, and left out: {', '.join(missing)}")
    with ExitStack() as stack:
        top = Path(tempfile.mkdtemp(prefix="penstock-peers-"))
        stack.callback(shutil.rmtree, top, ignore_errors=True)
        node = Node(top / "node", stack) if "requests" in jobs else None
        for shape in options.shapes.split(",") if {"requests", "passes", "loaders"}.intersection(jobs) else ():
            batch, size, count = SHAPES[shape]
            data = contenders.Data(top / shape, lambda: (os.urandom(size) for _ in range(count)), batch, "bin")
            label = f"{batch} x {size >> 10} KiB"
            if node is not None:
                readers = contenders.requests(data, node.client, node.redis)
                run(f"requests, {label}", map(endless(count, batch), readers), size, options.seconds)
            if "passes" in jobs:
                run(f"passes, shuffled, {label}", contenders.passes(data, shuffle=True), size)
                run(f"passes, in order, {label}", contenders.passes(data, shuffle=False), size)
            if "loaders" in jobs:
                run(f"loaders, {label}, 2 workers", contenders.loaders(data, stack), size)
            stack.callback(data.close)
        if "images" in jobs:
            data = contenders.Data(top / "images", contenders.pictures, 32, "jpg")
            run("images, 32 JPEGs, 2 workers", contenders.images(data, stack), data.bytes // data.count)


def endless(count: int, batch: int) -> object:
    """From a function that reads some samples to a contender that reads random ones for ever."""

    def contender(reader: contenders.Reader) -> Contender:
        def run() -> Iterator[int]:
            while True:
                reader.read(random.choices(range(count), k=batch))
                yield batch

        return Contender(reader.name, run)

    return contender


class Node:
    """A node, and a Redis if there is one, on free ports."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        folder.mkdir()
        binary = os.environ.get("PENSTOCK_BINARY") or str(Path(__file__).parents[2] / "bin" / "penstock")
        port, self.redis = _free_port(), _free_port()
        address = f"127.0.0.1:{port}"
        self._start(stack, folder, binary, "serve", "--data", str(folder / "data"), "--listen", address)
        if shutil.which("redis-server"):
            quiet = ("--save", "", "--appendonly", "no", "--port", str(self.redis), "--dir", str(folder))
            self._start(stack, folder, "redis-server", *quiet)
        else:
            self.redis = 0
        self.client = penstock.Client(f"http://{address}")
        for _ in range(100):
            try:
                self.client.create_bucket("peers")
                return
            except penstock.Unavailable:
                time.sleep(0.1)
        raise SystemExit(f"the node did not start: {(folder / 'log').read_text()}")

    def _start(self, stack: ExitStack, folder: Path, *command: str) -> None:
        with open(folder / "log", "ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        stack.callback(process.wait)
        stack.callback(process.terminate)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
