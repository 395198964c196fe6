"""Batches between processes: memory is used again, but never while somebody looks at it."""

from __future__ import annotations

import array
import gc
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.carry import Inbox, Outbox
from penstock.loader import Loader

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="there is no memfd")

LARGE = 300_000


class Line:
    """Both ends in one process."""

    def __init__(self) -> None:
        self.ends = multiprocessing.Pipe()
        self.inbox, self.outbox = Inbox(self.ends[0]), Outbox(self.ends[1])

    def carry(self, letter: bytes, size: int = LARGE) -> memoryview:
        for number in self.inbox.released():
            self.outbox.free(number)
        self.outbox.send({"x": memoryview(letter * size), "small": letter})
        value = self.inbox.receive()
        assert value["small"] == letter and value["x"] == letter * size
        found: memoryview = value["x"]
        return found


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line()
    yield line
    for end in line.ends:
        end.close()


def test_memory_is_used_again(line: Line) -> None:
    for i in range(20):
        line.carry(b"%d" % (i % 10))
    assert line.outbox._made <= 2


def test_what_is_kept_stays(line: Line) -> None:
    kept = [line.carry(b"a"), line.carry(b"b")[10:20]]
    for i in range(20):
        line.carry(b"%d" % (i % 10))
    assert kept[0] == b"a" * LARGE and kept[1] == b"b" * 10
    assert line.outbox._made <= 4


def test_other_sizes(line: Line) -> None:
    kept = [line.carry(b"x", size) for size in (40_000, LARGE, 8 * LARGE, 100, 50_000)]
    assert [len(view) for view in kept] == [40_000, LARGE, 8 * LARGE, 100, 50_000]
    assert all(view == b"x" * len(view) for view in kept)


def test_memory_is_used_again_when_batches_grow(line: Line) -> None:
    for size in (40_000, 50 * LARGE, LARGE):
        kept = [line.carry(b"k", size) for _ in range(10)]
        kept.clear()
        gc.collect()
        line.carry(b"l", size)
        made = line.outbox._made
        for _ in range(10):
            line.carry(b"m", size)
        assert line.outbox._made <= made + 1
        assert len(line.outbox._known) == len(line.inbox._known) <= 6


def test_views_keep_their_form(line: Line) -> None:
    for size in (8, 8000):
        doubles = memoryview(array.array("d", range(size)))
        for view in (
            doubles,
            doubles.cast("B").cast("d", (4, size // 4)),
            doubles.cast("B").cast("h", (size, 4)),
            doubles[::2],
            doubles[:0],
            doubles.cast("B").cast("c"),
        ):
            line.outbox.send(view)
            found = line.inbox.receive()
            assert found.tobytes() == view.tobytes()
            if view.format != "c" and len(view):
                assert (found.format, found.shape) == (view.format, view.shape)


def test_without_ctypes() -> None:
    code = """
import sys
sys.modules["ctypes"] = sys.modules["_ctypes"] = None
import multiprocessing, threading
import penstock, penstock.loader, penstock.torch
from penstock.carry import Inbox, Outbox
a, b = multiprocessing.Pipe()
threading.Thread(target=Outbox(a).send, args=(memoryview(b"x" * 300_000),)).start()
assert Inbox(b).receive() == b"x" * 300_000
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_many_that_were_kept_are_forgotten(line: Line) -> None:
    kept = [line.carry(b"k") for _ in range(30)]
    assert line.outbox._made == 30
    kept.clear()
    gc.collect()
    line.carry(b"l")
    assert len(line.outbox._known) == len(line.inbox._known) <= 5


def test_a_batch_outlives_its_loader() -> None:
    line = Line()
    view = line.carry(b"z")
    for end in line.ends:
        end.close()
    del line
    gc.collect()
    assert view == b"z" * LARGE


@pytest.mark.skipif(sys.platform != "linux", reason="counts in /proc")
def test_nothing_stays_open_or_mapped() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        line = Line()
        kept = [line.carry(b"q") for _ in range(10)]
        for end in line.ends:
            end.close()
        del line, kept
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
    with open("/proc/self/maps") as maps:
        assert "penstock-batch" not in maps.read()


@pytest.mark.parametrize("workers", ["none", "thread", "process"])
def test_batches_that_are_kept_stay(tmp_path: Path, workers: str) -> None:
    with penstock.create("kept", to=tmp_path / "kept") as w:
        for i in range(64):
            w.add(f"{i:02}", {"bin": bytes([i]) * 20_000})
    options = {"num_workers": 0} if workers == "none" else {"num_workers": 2, "workers": workers}
    with Loader(penstock.open(tmp_path / "kept"), batch_size=8, seed=1, decode="raw", **options) as dl:  # type: ignore[arg-type]
        kept = [batch for _ in range(3) for batch in dl]
    assert len(kept) == 24
    for batch in kept:
        for at, i in enumerate(batch["__index__"]):
            begin, end = batch["bin"].offsets[at : at + 2]
            assert bytes(batch["bin"].data[begin:end]) == bytes([i]) * 20_000
