#!/usr/bin/env python3
"""The whole study: makes the datasets, trains every variant with every seed, a few at a time.

    python run.py SOURCE OUT [--minutes 8] [--parallel 8]

SOURCE holds the files of Fashion-MNIST, and may hold webdataset beside them (pip install --target). OUT gets

    results.jsonl   a line for every epoch of every run, as they come
    about.json      what it ran on
    log.txt         what the runs said, and how each ended

The main runs come first. One that would not end in time is not begun, so what is there counts.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SDK = HERE.parents[1] / "python" / "src"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--parallel", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="runs at a time")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--more", type=int, default=2, help="seeds that the main variants get on top")
    parser.add_argument("--only", nargs="*", help="variants")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--limit", type=int, default=60000, help="how many samples to train with")
    parser.add_argument("--device", default=None, help="cuda if there is one")
    options = parser.parse_args()
    sys.path[:0] = [str(SDK), str(options.source.resolve())]
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="penstock-accuracy-") as folder:
        Study(options, Path(folder)).run()


class Study:
    """Runs that are to be done, and the files that they write to."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        from variants import plan

        self.options, self.folder = options, folder
        self.begun = time.monotonic()
        self.deadline = self.begun + 60 * options.minutes
        runs = plan(options.seeds, options.more)
        self.left = collections.deque(run for run in runs if not options.only or run[0] in options.only)
        self.longest: dict[str, float] = {}  # seconds, by variant
        self.failed = 0
        self.lock = threading.Lock()
        self.results = open(options.out / "results.jsonl", "w")
        self.log = open(options.out / "log.txt", "w")

    def run(self) -> None:
        from prepare import prepare

        prepare(self.options.source, self.folder, self.options.limit)
        (self.options.out / "about.json").write_text(json.dumps(about(self.options), indent=1) + "\n")
        self.say("the datasets are there")
        hands = [threading.Thread(target=self.work) for _ in range(self.options.parallel)]
        for hand in hands:
            hand.start()
        for hand in hands:
            hand.join()
        self.say(f"ended; {len(self.left)} runs were not begun, {self.failed} failed")
        if self.failed:
            raise SystemExit(1)

    def work(self) -> None:
        """Do one run after the other, while there are some and there is time."""
        while True:
            with self.lock:
                guess = max(self.longest.values(), default=0.0)
                if not self.left or time.monotonic() + guess > self.deadline:
                    return
                variant, seed = self.left.popleft()
            self.one(variant, seed)

    def one(self, variant: str, seed: int) -> None:
        begun = time.monotonic()
        command = [sys.executable, str(HERE / "train.py"), str(self.folder), "--variant", variant, "--seed", str(seed)]
        command += ["--epochs", str(self.options.epochs)]
        if self.options.device:
            command += ["--device", self.options.device]
        path = os.pathsep.join([str(SDK), str(self.options.source.resolve()), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path.rstrip(os.pathsep), "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)
        timer = threading.Timer(max(self.deadline - begun, 0), process.kill)
        timer.start()
        assert process.stdout is not None
        last = ""
        for line in process.stdout:
            last = line
            with self.lock:
                self.results.write(line)
                self.results.flush()
        status = process.wait()
        timer.cancel()
        took = time.monotonic() - begun
        with self.lock:
            self.longest[variant] = max(took, self.longest.get(variant, 0))
            self.failed += status != 0 and time.monotonic() < self.deadline  # else it was cut off
        self.say(f"{variant} {seed}: {f'status {status}' if status else last.strip()}; {took:.0f} s")

    def say(self, text: str) -> None:
        line = f"{time.monotonic() - self.begun:5.0f} s  {text}"
        print(line, flush=True)
        with self.lock:
            self.log.write(line + "\n")
            self.log.flush()


def about(options: argparse.Namespace) -> dict[str, object]:
    """What it runs on."""
    import torch
    import webdataset

    cuda = torch.cuda.is_available() and options.device in (None, "cuda")
    return {
        "torch": torch.__version__,
        "webdataset": webdataset.__version__,
        "python": sys.version.split()[0],
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "cores": os.cpu_count(),
        "parallel": options.parallel,
        "epochs": options.epochs,
        "samples": options.limit,
    }


if __name__ == "__main__":
    main()
