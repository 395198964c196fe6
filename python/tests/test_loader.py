"""Loaders: the same batches for everybody, in every way of making them, from any state."""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import datasets
import pytest
from datasets import write

import penstock
from penstock.loader import Loader

COUNT = 500

WAYS: list[dict[str, Any]] = [
    {},
    {"num_workers": 2, "workers": "thread"},
    {"num_workers": 2, "workers": "process", "multiprocessing_context": "fork"},
    {"num_workers": 2, "workers": "process", "multiprocessing_context": "spawn"},
]
IDS = ["inline", "thread", "fork", "spawn"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("pets"), COUNT)


@pytest.fixture
def ds(home: Path) -> penstock.Dataset:
    return penstock.open(home)


def pick(sample: dict[str, Any], rng: Any) -> tuple[int, bytes, float]:
    """A transform with chance in it."""
    return sample["__index__"], bytes(sample["bin"][: rng.randrange(1, 5)]), rng.random()


def together(samples: list[Any]) -> list[Any]:
    return samples


def make(ds: penstock.Dataset, **options: Any) -> Loader:
    defaults = {"batch_size": 16, "seed": 7, "shuffle": "window:100KiB", "transform": pick, "collate_fn": together}
    return Loader(ds, **{**defaults, **options})


def whole(batches_of_ranks: list[list[list[Any]]]) -> list[list[Any]]:
    """The global batches: what the ranks got, put together."""
    found = []
    for shares in zip(*batches_of_ranks, strict=True):
        assert len({len(share) for share in shares}) == 1
        found.append([item for items in zip(*shares) for item in items])
    return found


# What is delivered.


def test_every_sample_once(ds: penstock.Dataset) -> None:
    for shuffle in ("none", "full", "window:100KiB", True, False):
        dl = make(ds, shuffle=shuffle, drop_last=False, batch_size=17)
        seen = [item[0] for batch in dl for item in batch]
        assert sorted(seen) == list(range(COUNT)) and len(dl) == 30
        assert (seen == list(range(COUNT))) == (shuffle in ("none", False))


@pytest.mark.parametrize("way", WAYS, ids=IDS)
def test_every_way_gives_the_same(ds: penstock.Dataset, way: dict[str, Any]) -> None:
    expected = [list(make(ds)), [make(ds).batch_at(1, step) for step in range(31)]]
    with make(ds, **way) as dl:
        assert [list(dl), list(dl)] == expected
        assert dl.epoch == 2 and len(dl) == 31
        assert dl.stalls()["batches"] == 62 and dl.batch_at(1, 3) == expected[1][3]


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_any_number_of_ranks(ds: penstock.Dataset, size: int) -> None:
    one = list(make(ds, global_batch=64, batch_size=None))
    ranks = [make(ds, global_batch=64, batch_size=None, dp_rank=rank, dp_size=size) for rank in range(size)]
    assert whole([list(dl) for dl in ranks]) == one
    twins = [list(make(ds, batch_size=64 // size, dp_rank=0, dp_size=size)) for _ in range(2)]
    assert twins[0] == twins[1]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_end_of_an_epoch(ds: penstock.Dataset, size: int) -> None:
    # 500 = 7 x 64 + 52
    def ranks(**options: Any) -> list[list[list[Any]]]:
        options = {"global_batch": 64, "batch_size": None, "dp_size": size, "shuffle": "full", **options}
        return [list(make(ds, dp_rank=rank, **options)) for rank in range(size)]

    assert [len(b) for b in whole(ranks())] == [64] * 7
    assert [len(b) for b in whole(ranks(drop_last=False))] == [64] * 7 + [52]
    repeated = whole(ranks(pad="repeat"))
    assert [len(b) for b in repeated] == [64] * 8
    assert sorted(i for i, *_ in (b for batch in repeated for b in batch)) != list(range(COUNT))
    assert [b[0] for b in repeated[7][52:]] == [b[0] for b in repeated[0][:12]]
    masked = ranks(pad="mask", transform=None, collate_fn=None, decode=None, fields=["n"])
    assert sum(sum(batch["__mask__"].tolist()) for rank in masked for batch in rank) == COUNT
    tuples = make(ds, pad="mask", global_batch=64, batch_size=None, collate_fn=None)
    assert isinstance(tuples.batch_at(0, 7), tuple) and sum(tuples.batch_at(0, 7)[1].tolist()) == 52


def test_ranks_that_do_not_divide_the_rest(ds: penstock.Dataset) -> None:
    lengths = {len(make(ds, global_batch=72, batch_size=None, dp_rank=r, dp_size=3, drop_last=False)) for r in range(3)}
    assert lengths == {7}  # 500 = 6 x 72 + 68, of which 66 can be given out evenly
    last = [
        make(ds, global_batch=72, batch_size=None, dp_rank=r, dp_size=3, drop_last=False).batch_at(0, 6)
        for r in range(3)
    ]
    assert [len(share) for share in last] == [22, 22, 22]


def test_smaller_than_a_batch(ds: penstock.Dataset) -> None:
    few = ds.select(range(10))
    with pytest.raises(penstock.Invalid, match="less than one global batch"):
        make(few)
    assert [len(b) for b in make(few, drop_last=False)] == [10]
    assert [i[0] for i in make(few, pad="repeat", shuffle="none").batch_at(0, 0)] == [*range(10), *range(6)]


def test_ranks_of_the_environment(ds: penstock.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    dl = make(ds)
    assert (dl.dp_rank, dl.dp_size, dl.global_batch, dl.batch_size) == (1, 2, 32, 16)
    assert make(ds, dp_rank=0, dp_size=1).dp_size == 1


def test_what_makes_no_sense(ds: penstock.Dataset) -> None:
    for wrong in (
        {"batch_size": None}, {"global_batch": 16}, {"batch_size": 0}, {"shuffle": "some"}, {"pad": "zero"}, {"workers": "fibre"},
        {"num_workers": -1}, {"dp_rank": 1}, {"dp_rank": 2, "dp_size": 2}, {"batch_size": None, "global_batch": 10, "dp_rank": 0, "dp_size": 4},
        {"on_error": "ignore"}, {"decode": "jpeg"}, {"fields": ["png"]}, {"seed": -1},
    ):  # fmt: skip
        with pytest.raises(penstock.Invalid):
            make(ds, **wrong)


# State.


def consume(dl: Loader, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        for batch in dl:
            found.append(batch)
            if len(found) == count:
                break
    return found


@pytest.mark.parametrize("way", WAYS[:3], ids=IDS[:3])
def test_resume_anywhere(ds: penstock.Dataset, way: dict[str, Any]) -> None:
    dice = random.Random(5)
    expected = consume(make(ds), 80)  # more than two epochs of 31
    for stop in [0, 1, 30, 31, 32, 62, dice.randrange(80)]:
        with make(ds, **way) as first, make(ds, **way) as second:
            consume(first, stop)
            state = json.loads(json.dumps(first.state_dict()))
            second.load_state_dict(state)
            assert second.state_dict() == state
            assert consume(second, 80 - stop) == expected[stop:], stop


def test_resume_with_other_ranks(ds: penstock.Dataset) -> None:
    options = {"global_batch": 48, "batch_size": None}
    expected = consume(make(ds, **options), 25)  # an epoch has 10
    state: Any = None
    found: list[Any] = []
    for size, steps in ((4, 3), (2, 6), (3, 4), (1, 9), (6, 3)):
        ranks = [make(ds, dp_rank=rank, dp_size=size, **options) for rank in range(size)]
        for dl in ranks:
            if state is not None:
                dl.load_state_dict(state)
        found += whole([consume(dl, steps) for dl in ranks])
        states = [dl.state_dict() for dl in ranks]
        assert all(s == states[0] for s in states)
        state = states[0]
    assert found == expected


def test_state_is_small_and_plain(ds: penstock.Dataset) -> None:
    state = make(ds).state_dict()
    assert len(json.dumps(state)) < 500 and pickle.loads(pickle.dumps(state)) == state
    assert {
        "dataset",
        "version",
        "order",
        "shuffle",
        "seed",
        "epoch",
        "position",
        "global_batch",
        "pad",
        "selection",
    } <= set(state)


def test_what_does_not_fit(ds: penstock.Dataset, tmp_path: Path) -> None:
    state = make(ds).state_dict()
    for options, said in (
        ({"seed": 8}, "seed is 7, not 8"),
        ({"shuffle": "full"}, "shuffle is 'window:100KiB', not 'full'"),
        ({"batch_size": 32}, "pass global_batch=16"),
        ({"pad": "repeat"}, "pad is 'drop'"),
        ({"drop_last": False}, "drop_last"),
    ):
        with pytest.raises(penstock.Stale, match=said):
            make(ds, **options).load_state_dict(state)
    with pytest.raises(penstock.Stale, match="all of the dataset"):
        make(ds.select(range(400))).load_state_dict(state)
    other = penstock.open(write(tmp_path / "other", 400))
    with pytest.raises(penstock.Stale, match="pets@1 with the samples"):
        make(other).load_state_dict(state)
    shutil.copytree(ds.place.path, tmp_path / "moved")
    make(penstock.open(tmp_path / "moved")).load_state_dict(state)  # the same samples elsewhere
    for damage in (
        {"epoch": -1},
        {"position": 7},
        {"position": "x"},
        {"format": 2},
        {"order": "other"},
        {"position": 10**9},
    ):
        with pytest.raises((penstock.Stale, penstock.Invalid)):
            make(ds).load_state_dict({**state, **damage})
    with pytest.raises(penstock.Invalid):
        make(ds).load_state_dict({})


def test_set_epoch(ds: penstock.Dataset) -> None:
    dl = make(ds)
    dl.set_epoch(3)
    consume(dl, 2)
    dl.set_epoch(3)  # as a loop does that was resumed in the middle
    assert next(iter(dl)) == dl.batch_at(3, 2)
    dl.set_epoch(0)
    assert dl.state_dict()["position"] == 0 and next(iter(dl)) == dl.batch_at(0, 0)
    with pytest.raises(penstock.Invalid):
        dl.set_epoch(-1)


def test_a_break_goes_on_where_it_was(ds: penstock.Dataset) -> None:
    with make(ds, num_workers=2, workers="thread") as dl:
        for step, batch in enumerate(dl):
            assert dl.step == step + 1
            if step == 4:
                break
        old = iter(dl)
        assert next(old) == dl.batch_at(0, 5)
        new = iter(dl)
        with pytest.raises(penstock.Invalid, match="another one was begun"):
            next(old)
        assert next(new) == dl.batch_at(0, 6)
        rest = list(new)
        assert len(rest) == 31 - 7 and dl.epoch == 1 and dl.step == 0
        with pytest.raises(StopIteration):
            next(new)


def test_at_the_last_batch_state_is_the_next_epoch(ds: penstock.Dataset) -> None:
    dl = make(ds)
    for batch in dl:
        state = dl.state_dict()
        assert dl.epoch == 0
    assert (state["epoch"], state["position"]) == (1, 0) and dl.state_dict() == state


def test_selections_and_mixtures(ds: penstock.Dataset, tmp_path: Path) -> None:
    train, rest = ds.split(0.8, seed=2)
    seen = {i for batch in make(train) for i, *_ in batch} | {
        i for batch in make(rest, drop_last=False) for i, *_ in batch
    }
    assert len(seen) >= 490
    both = penstock.mix({train: 0.75, rest: 0.25}, block=16)
    dl = make(both)
    batches = consume(dl, 40)
    held_out = set(rest.numbers)
    assert all(sum(i in held_out for i, *_ in batch) == 4 for batch in batches)
    again = make(penstock.mix({train: 0.75, rest: 0.25}, block=16))
    again.load_state_dict(make(both).state_dict())
    assert consume(again, 40) == batches
    with pytest.raises(penstock.Stale):
        make(penstock.mix({train: 0.5, rest: 0.5}, block=16)).load_state_dict(dl.state_dict())
    # The chance of a sample does not depend on what it is selected with.
    alone, all_of_it = {i: rest for b in make(train) for i, *rest in b}, {i: rest for b in make(ds) for i, *rest in b}
    common = alone.keys() & all_of_it.keys()
    assert len(common) > 300 and all(alone[i] == all_of_it[i] for i in common)


# Decoding.


def test_decode(tmp_path: Path) -> None:
    with penstock.create("x", to=tmp_path) as w:
        for i in range(8):
            w.add(
                f"{i}",
                {"cls": b"%d" % i, "json": b'{"a": [1, 2]}', "txt": "grün".encode(), "bin": b"\0" * i, "index": i},
            )
    ds = penstock.open(tmp_path)

    def first(**options: Any) -> Any:
        return Loader(ds, batch_size=4, shuffle="none", **options).batch_at(0, 1)

    batch = first()
    assert batch["cls"].tolist() == [4, 5, 6, 7] and batch["json"][0] == {"a": [1, 2]} and batch["txt"][3] == "grün"
    assert batch["bin"] == [b"\0" * i for i in range(4, 8)] and batch["__key__"] == ["4", "5", "6", "7"]
    assert first(decode=None)["cls"] == [b"4", b"5", b"6", b"7"]
    raw = first(decode="raw", fields=["bin"])["bin"]
    assert bytes(raw.data) == b"\0" * 22 and raw.offsets.tolist() == [0, 4, 9, 15, 22]
    assert first(decode={"bin": len})["bin"].tolist() == [4, 5, 6, 7]
    assert first(fields=["index"]).keys() == {"__key__", "__index__", "index"}


def test_samples_that_differ(ds: penstock.Dataset) -> None:
    with pytest.raises(penstock.Invalid, match="only one has"):
        make(ds, transform=None, collate_fn=None).batch_at(0, 0)


# Trouble.


def damage(home: Path, to: Path, numbers: list[int]) -> penstock.Dataset:
    shutil.copytree(home, to)
    ds = penstock.open(to)
    for i in numbers:
        where = ds.manifest.locate([i], "bin")
        with open(to / ds.manifest.shard(where.shards[0]).name, "r+b") as file:
            file.seek(where.offsets[0])
            byte = file.read(1)[0]
            file.seek(where.offsets[0])
            file.write(bytes([byte ^ 0x40]))
    return ds


@pytest.mark.parametrize("way", WAYS, ids=IDS)
def test_a_damaged_sample(home: Path, tmp_path: Path, way: dict[str, Any]) -> None:
    ds = damage(home, tmp_path / "damaged", [123])
    with make(ds, drop_last=False, **way) as dl:
        with pytest.raises(penstock.SampleError) as caught:
            list(dl)
        error = caught.value
        assert (error.index, error.key, error.kind, error.dataset) == (123, datasets.key(123), "Corrupt", "pets")
        state = dl.state_dict()
        with pytest.raises(penstock.SampleError):  # it is still there
            list(dl)
        assert dl.state_dict() == state
    with make(ds, drop_last=False, on_error="substitute", **way) as dl:
        with pytest.warns(RuntimeWarning, match="cannot be read, first: pets@1: sample 123"):
            batches = list(dl)
        assert [len(batch) for batch in batches] == [16] * 31 + [4]
        seen = [i for batch in batches for i, *_ in batch]
        assert 123 not in seen and len(seen) == COUNT
        assert dl.substituted == 1 and dl.errors[0].index == 123
        twin = make(ds, drop_last=False, on_error="substitute")
        with pytest.warns(RuntimeWarning):
            assert list(twin) == batches


def refuse(sample: Any) -> Any:
    if sample["n"] == 77:
        raise KeyError("colour")
    return sample["n"]


class Odd(Exception):
    """Cannot be made from its arguments."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


def odd(samples: list[Any]) -> Any:
    raise Odd(1, 2)


def unsendable(samples: list[Any]) -> Any:
    return threading.Lock()


@pytest.mark.parametrize("way", WAYS[1:], ids=IDS[1:])
def test_errors_of_the_user(ds: penstock.Dataset, way: dict[str, Any]) -> None:
    with make(ds, transform=refuse, drop_last=False, **way) as dl:
        with pytest.raises(penstock.SampleError, match="transform failed: KeyError: 'colour'") as caught:
            list(dl)
        assert caught.value.index == 77 and caught.value.__cause__ is not None
        if way["workers"] == "process":
            assert "in refuse" in str(caught.value.__cause__)
    with make(ds, collate_fn=odd, **way) as dl, pytest.raises((Odd, penstock.Internal), match="1 and 2"):
        list(dl)
    if way["workers"] == "process":
        with make(ds, collate_fn=unsendable, **way) as dl, pytest.raises(penstock.Internal, match="cannot be sent"):
            list(dl)


def deadly(sample: Any) -> Any:
    if sample["n"] == 200:
        os.kill(os.getpid(), signal.SIGKILL)
    return sample["n"]


def test_a_worker_that_is_killed(ds: penstock.Dataset) -> None:
    with make(ds, transform=deadly, num_workers=2) as dl:
        with pytest.raises(penstock.Internal, match="was killed by signal 9"):
            list(dl)
    with make(ds, num_workers=2) as dl:
        expected = list(make(ds))
        running = iter(dl)
        assert next(running) == expected[0]
        for worker in list(dl._crew._workers):
            os.kill(worker.process.pid, signal.SIGKILL)
        with pytest.raises(penstock.Internal):
            list(running)
        assert consume(dl, 3) == expected[dl.step - 3 : dl.step]  # others take their place


def test_a_dataset_that_is_removed(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home, tmp_path / "gone")
    ds = penstock.open(tmp_path / "gone")
    for way in WAYS[:3]:
        with make(ds, **way) as dl:
            running = iter(dl)
            next(running)
            (tmp_path / "gone" / "000001").rename(tmp_path / "away")
            ds.close()
            with pytest.raises(penstock.SampleError, match="does not exist") as caught:
                list(running)
                list(dl)
            assert caught.value.kind == "NotFound"
            (tmp_path / "away").rename(tmp_path / "gone" / "000001")


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


def gone(pids: list[int]) -> bool:
    end = time.monotonic() + 20
    while any(alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.01)
    return not any(alive(pid) for pid in pids)


def shared() -> set[str]:
    """What is in shared memory, but for the semaphores of whoever else is at work here: we have none."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.")}


SCRIPT = """
import sys, time, penstock
from penstock.loader import Loader
def slow(sample):
    time.sleep({pause})
    return sample["n"]
if __name__ == "__main__":
    dl = Loader(penstock.open({home!r}), batch_size=16, transform=slow, num_workers=2, workers="process",
                multiprocessing_context={method!r})
    for batch in dl:
        print(*(worker.process.pid for worker in dl._crew._workers), flush=True)
    print("end", flush=True)
    if {close}:
        dl.close()
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL, None])
def test_nothing_is_left(home: Path, tmp_path: Path, method: str, how: signal.Signals | None) -> None:
    before = shared()
    pause = 0.0 if how is None else 0.01
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(home=str(home), method=method, pause=pause, close=False))
    process = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None and process.stderr is not None
    pids = [int(pid) for pid in process.stdout.readline().split()]
    assert len(pids) == 2
    if how == signal.SIGINT:
        os.killpg(process.pid, how)  # what a terminal does
    elif how is not None:
        process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    assert gone(pids)
    assert shared() <= before
    if how == signal.SIGINT:
        assert errors.count("KeyboardInterrupt") == 1 and process.returncode != 0, errors
    if how is None:
        assert process.returncode == 0 and errors == "", errors


def test_a_loader_that_is_dropped(ds: penstock.Dataset) -> None:
    dl = make(ds, num_workers=2)
    next(iter(dl))
    pids = [worker.process.pid for worker in dl._crew._workers]
    del dl
    import gc

    gc.collect()
    assert gone(pids)
    threads = threading.active_count()
    dl = make(ds, num_workers=3, workers="thread")
    next(iter(dl))
    assert threading.active_count() == threads + 3
    del dl
    gc.collect()
    end = time.monotonic() + 20
    while threading.active_count() > threads and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() == threads


def test_memory_is_given_back(ds: penstock.Dataset) -> None:
    with make(ds, transform=None, fields=["bin"], decode="raw", collate_fn=None, num_workers=2, batch_size=50) as dl:
        fds = len(os.listdir("/proc/self/fd")) if list(dl) else 0
        for _ in range(5):
            kept = list(dl)
        assert len(os.listdir("/proc/self/fd")) == fds
        assert kept[0]["bin"].data.flags.writeable
        sizes = [len(batch["bin"].data) for batch in kept]
        assert min(sizes) > 32 << 10


def test_a_loader_in_a_forked_process(ds: penstock.Dataset) -> None:
    dl = make(ds, num_workers=2, workers="thread")
    expected = consume(dl, 1)
    read, write_ = os.pipe()
    with pytest.MonkeyPatch.context():
        context = multiprocessing.get_context("fork")
        process = context.Process(target=lambda: os.write(write_, pickle.dumps(next(iter(dl)) == dl.batch_at(0, 1))))
        process.start()
        process.join(30)
    assert expected and pickle.loads(os.read(read, 1000)) is True
    os.close(read)
    os.close(write_)


# Waits.


def slow(sample: Any) -> Any:
    time.sleep(0.002)
    return sample["n"]


@pytest.mark.parametrize("way", WAYS[:3], ids=IDS[:3])
def test_stalls(ds: penstock.Dataset, way: dict[str, Any]) -> None:
    with make(ds, transform=slow, **way) as dl:
        consume(dl, 20)
        report = dl.stalls()
    assert report["batches"] == 20 and 0.5 < report["share"] <= 1
    stages = report["stages"]
    assert stages["transform"] + stages["queue"] > 0.5 * report["waited"]
    assert abs(sum(stages.values()) - report["waited"]) < 1e-6
    if way:
        with make(ds, **way) as dl:
            for _ in dl:
                time.sleep(0.02)
            report = dl.stalls()
        assert report["share"] < 0.5  # a slow consumer does not wait


def test_chance_is_the_same_everywhere() -> None:
    from penstock.chance import chance, seeded, takes_chance

    one, two = chance(7, 1, 99, 5), chance(7, 1, 99, 5)
    assert [one.random() for _ in range(3)] == [two.random() for _ in range(3)] and one.key == two.key
    assert one.key == 0 or one.key != chance(7, 2, 99, 5).key != chance(7, 1, 99, 6).key
    assert copy.copy(one).key == one.key and one.numpy.random() == two.numpy.random()
    assert takes_chance(lambda s, rng: 0) and not takes_chance(lambda s: 0) and not takes_chance(lambda s, k=1: 0)
    state = random.getstate()
    draw = seeded(lambda sample: random.random())
    assert draw(None, one) == draw(None, two) and random.getstate() == state and takes_chance(draw)


def test_an_interrupted_loop_goes_on(ds: penstock.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.carry import Inbox

    expected = list(make(ds))
    with make(ds, num_workers=2) as dl:
        found = consume(dl, 3)
        receive, calls = Inbox.receive, iter(range(9))

        def interrupted(inbox: Inbox) -> Any:
            if next(calls) == 2:
                inbox._connection.recv_bytes()  # a part of what there is
                raise KeyboardInterrupt
            return receive(inbox)

        monkeypatch.setattr(Inbox, "receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            for batch in dl:
                found.append(batch)
        monkeypatch.undo()
        found += list(dl)
    assert found == expected


@pytest.mark.parametrize("way", WAYS, ids=IDS)
def test_from_a_node(
    client: penstock.Client,
    bucket: str,
    home: Path,
    way: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    name = f"loaded-{IDS[WAYS.index(way)]}"
    here = penstock.open(home)
    with penstock.create(name, bucket=bucket, client=client, chunk_size=16 << 10, classes={"cls": datasets.WORDS}) as w:
        for i in range(COUNT):
            w.add(datasets.key(i), datasets.sample(i))
    there = penstock.open(name, client=client)
    assert there.hash == here.hash  # the same samples, so the same order and state
    with make(there, **way) as dl:
        dl.load_state_dict(make(here).state_dict())
        assert list(dl) == list(make(here))


def firsts(samples: list[Any]) -> list[Any]:
    return [sample["n"] for sample in samples]


def test_a_mask_is_not_put_together_by_the_user(ds: penstock.Dataset) -> None:
    dl = make(ds, batch_size=64, pad="mask", transform=None, collate_fn=firsts)
    batch, mask = dl.batch_at(0, 7)
    assert len(batch) == 64 and sum(mask) == 52


def test_a_warning_that_is_an_error_loses_no_batch(home: Path, tmp_path: Path) -> None:
    ds = damage(home, tmp_path / "damaged", list(range(0, COUNT, 50)))
    expected = [make(ds, on_error="substitute").batch_at(0, step) for step in range(31)]
    dl, seen = make(ds, on_error="substitute"), []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):
            for batch in dl:
                seen.append(batch)
        assert dl.substituted == len(dl.errors) > 0 and dl.step == len(seen)
        seen += dl
    assert seen == expected


def test_set_epoch_at_the_end_of_it(ds: penstock.Dataset) -> None:
    dl = make(ds)
    for _, _batch in zip(range(len(dl)), dl):
        pass
    assert (dl.epoch, dl.step) == (0, 31)
    dl.set_epoch(0)
    assert (dl.epoch, dl.step) == (0, 0) and len(list(dl)) == 31


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_closing_one_of_two(ds: penstock.Dataset) -> None:
    options: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork"}
    with make(ds, **options) as first, make(ds, **options) as second:
        for dl in (first, second):
            list(dl)
        workers = [worker.process for worker in first._crew._workers]  # type: ignore[union-attr]
        begin = time.monotonic()
        first.close()
        assert time.monotonic() - begin < 0.9
        assert [worker.exitcode for worker in workers] == [0, 0]  # nobody had to end them


def test_the_epoch_is_set_before_the_first_batch(ds: penstock.Dataset) -> None:
    # Lightning asks for an iterator first, and then says which epoch it is.
    for way in WAYS[:3]:
        with make(ds, **way) as dl:
            running = iter(dl)
            dl.sampler.set_epoch(2)
            assert next(running) == make(ds).batch_at(2, 0) and (dl.epoch, dl.step) == (2, 1)
            dl.set_epoch(2)
            assert next(running) == make(ds).batch_at(2, 1)
            dl.set_epoch(3)
            with pytest.raises(penstock.Invalid, match="moved"):
                next(running)
