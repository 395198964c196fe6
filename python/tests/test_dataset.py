"""Datasets in directories and on a node: read as they were written, or an error that says what is wrong."""

from __future__ import annotations

import gc
import io
import multiprocessing
import os
import pickle
import random
import shutil
import subprocess
import sys
import tarfile
import threading
import time
import warnings
from pathlib import Path

import datasets
import pytest
from conftest import ROOT, Node
from datasets import same, write

import penstock
from penstock.manifest_writer import ManifestWriter, PieceAt
from penstock.opening import versions
from penstock.place import shard_path

COUNT = 700


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("pets"), COUNT)


@pytest.fixture
def ds(home: Path) -> penstock.Dataset:
    return penstock.open(home)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "penstock" / "manifests"


def stored(client: penstock.Client, bucket: str, name: str = "pets", count: int = COUNT) -> penstock.Dataset:
    with penstock.create(name, bucket=bucket, client=client, shard_size=64 << 10, chunk_size=16 << 10) as w:
        for i in range(count):
            w.add(datasets.key(i), datasets.sample(i))
    return penstock.open(name, client=client)


def test_everything_comes_back(ds: penstock.Dataset) -> None:
    assert (len(ds), ds.name, ds.version) == (COUNT, "pets", 1)
    assert ds.fields == ("bin", "json") and ds.columns == ("caption", "cls", "n", "x")
    assert ds.classes == datasets.WORDS
    numbers = random.sample(range(COUNT), 300)
    assert all(same(found, i) for i, found in zip(numbers, ds.get(numbers)))
    assert all(same(found, i) for i, found in enumerate(ds))
    assert same(ds[42], 42) and same(ds[-1], COUNT - 1)
    assert ds.find(datasets.key(77)) == 77 and ds.key(77) == datasets.key(77)
    assert ds.get([]) == []
    assert ds.get([3, 3, 1])[0] == ds[3]


def test_some_fields(ds: penstock.Dataset) -> None:
    assert ds.get([5, 6], fields=["json", "n"]) == [
        {"__key__": datasets.key(5), "__index__": 5, "json": b'{"i": 5}', "n": 5},
        {"__key__": datasets.key(6), "__index__": 6, "n": 6},
    ]
    with pytest.raises(penstock.NotFound, match="no field or column png"):
        ds.get([1], fields=["png"])
    for wrong in ([COUNT], [-COUNT - 1], [0, 10**12]):
        with pytest.raises(IndexError):
            ds.get(wrong)
    with pytest.raises(penstock.Invalid, match="by their numbers"):
        ds.get("cat/00000")


def test_ways_to_open(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for spec in (str(home), f"file://{home}", f"{home}@1", f"file://{home}@1", home):
        assert penstock.open(spec).version == 1
    monkeypatch.chdir(home.parent)
    assert len(penstock.open(f"./{home.name}")) == COUNT
    for wrong in ("s3://b/k", "no such@name", "file://host/dir", "a@b", ""):
        with pytest.raises(penstock.Invalid):
            penstock.open(wrong)
    for gone in (f"{home}@2", home / "000001", "/no/such/dir", home / "manifest-000001"):
        with pytest.raises(penstock.NotFound):
            penstock.open(gone)


def test_the_go_reader_agrees(home: Path) -> None:
    binary = os.environ.get("PENSTOCK_BINARY") or str(ROOT / "bin" / "penstock")
    done = subprocess.run([binary, "dataset", "verify", str(home)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and f"{COUNT} samples" in done.stdout + done.stderr, done.stderr
    command = [binary, "dataset", "cat", str(home), f"{datasets.key(5)}.json"]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert b'{"i": 5}' in done.stdout, (done.stdout, done.stderr)


def test_a_dataset_of_the_command(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for i in range(30):
        folder = source / datasets.WORDS[i % 3]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i}.bin").write_bytes(datasets.sample(i)["bin"])
    binary = os.environ.get("PENSTOCK_BINARY") or str(ROOT / "bin" / "penstock")
    command = [binary, "dataset", "create", "pets", "--from", source, "--to", tmp_path / "made", "--class-from-folder"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    ds = penstock.open(tmp_path / "made")
    assert len(ds) == 30 and ds.classes == tuple(sorted(datasets.WORDS))
    for sample in ds:
        word, number = sample["__key__"].split("/")
        assert ds.classes[sample["cls"]] == word and sample["bin"] == datasets.sample(int(number))["bin"]


def test_webdataset_finds_its_members(home: Path) -> None:
    with tarfile.open(home / "000001" / "000000.tar") as tar:
        members = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    assert members["cat/00000.bin"] == datasets.sample(0)["bin"]
    assert members["dog/00001.cls"] == b"1" and members["cat/00000.caption"] == "number 0 é".encode()


# What is damaged, gone or hostile.


def test_damage_is_an_error_in_its_place(home: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(home, copy)
    ds = penstock.open(copy)
    where = ds.manifest.locate([100], "bin")
    shard = copy / ds.manifest.shard(where.shards[0]).name
    with open(shard, "r+b") as file:
        file.seek(where.offsets[0])
        byte = file.read(1)[0]
        file.seek(where.offsets[0])
        file.write(bytes([byte ^ 1]))
    found = ds.get(range(98, 103), on_error="return")
    assert [type(f).__name__ for f in found] == ["dict", "dict", "SampleError", "dict", "dict"]
    error = found[2]
    assert isinstance(error, penstock.SampleError) and error.kind == "Corrupt"
    assert (error.dataset, error.version, error.index, error.key) == ("pets", 1, 100, datasets.key(100))
    assert error.shard == ds.manifest.shard(where.shards[0]).name and error.offset == where.offsets[0]
    with pytest.raises(penstock.SampleError, match="damaged"):
        ds.get([99, 100])
    os.truncate(shard, where.offsets[0] + 1)
    ds.close()
    with pytest.raises(penstock.SampleError, match="ends at"):
        ds[100]
    shard.unlink()
    ds.close()
    with pytest.raises(penstock.SampleError, match="does not exist") as caught:
        ds[100]
    assert caught.value.kind == "NotFound" and same(ds[COUNT - 1], COUNT - 1)
    shard.mkdir()
    with pytest.raises(penstock.SampleError, match="not a file"):
        ds[100]
    shard.rmdir()
    os.mkfifo(shard)
    with pytest.raises(penstock.SampleError, match="not a file"):  # and does not wait for a writer
        ds[100]


def hostile(to: Path, name: str, offset: int = 0, size: int = 3, total: int = 3) -> penstock.Dataset:
    """A dataset whose only shard has a name that somebody else has chosen."""
    w = ManifestWriter("bad", 1)
    w.add(b"k", {"bin": PieceAt(0, offset, size, 0x352441C2)}, {})  # that of b"abc"
    w.add_shard(name, total, "")
    to.mkdir(exist_ok=True)
    (to / "manifest-000001").write_bytes(w.finish(chunk_samples=1, created=0)[0])
    return penstock.open(to)


@pytest.mark.parametrize("name", ["../secret", "a/../../secret", "..", "a//b", "./a", "a\0b", "", "a/"])
def test_names_stay_inside(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_bytes(b"abc")
    with pytest.raises((penstock.SampleError, penstock.Corrupt)) as caught:
        shard_path(str(tmp_path), name)
        hostile(tmp_path / "bad", name)[0]
    assert caught.value.kind == "Corrupt"


def test_absolute_names_stand_for_themselves(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"abc")
    assert hostile(tmp_path / "bad", str(tmp_path / "elsewhere"))[0]["bin"] == b"abc"
    with pytest.raises(penstock.SampleError):
        hostile(tmp_path / "worse", "/dev/zero")[0]


def test_a_size_that_is_a_lie_takes_no_memory(tmp_path: Path) -> None:
    (tmp_path / "few").write_bytes(b"abc")
    with pytest.raises(penstock.SampleError, match="ends at 3"):
        hostile(tmp_path / "bad", str(tmp_path / "few"), 0, 0xFFFFFFF0, 1 << 33)[0]
    with pytest.raises(penstock.SampleError, match="ends at"):
        hostile(tmp_path / "worse", str(tmp_path / "few"), 1 << 40, 3, 1 << 50)[0]


# Processes and threads.


def _read(ds: penstock.Dataset, numbers: list[int], out: multiprocessing.Queue[bool]) -> None:
    out.put(all(same(found, i) for i, found in zip(numbers, ds.get(numbers))))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("place", ["directory", "node"])
def test_other_processes(
    method: str, place: str, ds: penstock.Dataset, client: penstock.Client, bucket: str, cache: Path
) -> None:
    if place == "node":
        ds = stored(client, bucket, f"pets-{method}")
    context = multiprocessing.get_context(method)
    out = context.Queue()
    assert same(ds[1], 1)  # so that there is something open to inherit
    parts = [ds, ds.split(0.5, seed=3)[0]]
    assert all(len(pickle.dumps(part)) < 1500 for part in parts)
    processes = [context.Process(target=_read, args=(ds, [i, i + 50, 3], out)) for i in range(3)]
    for process in processes:
        process.start()
    assert all(out.get(timeout=60) for _ in processes)
    for process in processes:
        process.join(30)
    assert same(ds[2], 2)


def test_threads(home: Path) -> None:
    ds = penstock.open(home)
    ds.place._limit = 3  # files are closed while others read from them
    failed: list[object] = []

    def read(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(30):
            numbers = dice.sample(range(COUNT), 40)
            if not all(same(found, i) for i, found in zip(numbers, ds.get(numbers))):
                failed.append(numbers)

    threads = [threading.Thread(target=read, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed


def test_nothing_stays_open(home: Path) -> None:
    gc.collect()  # what other tests have left
    before = len(os.listdir("/proc/self/fd"))
    ds = penstock.open(home)
    ds.get(range(COUNT))
    assert len(os.listdir("/proc/self/fd")) > before
    del ds
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_replaced_under_a_pickle(tmp_path: Path) -> None:
    ds = penstock.open(write(tmp_path / "a", 20))
    data = pickle.dumps(ds)
    shutil.rmtree(tmp_path / "a")
    write(tmp_path / "a", 21)
    with pytest.raises(penstock.Stale):
        len(pickle.loads(data))


# On a node.


def test_on_a_node(client: penstock.Client, bucket: str, cache: Path) -> None:
    ds = stored(client, bucket)
    assert ds.version == 1 and ds.classes == datasets.WORDS
    numbers = random.sample(range(COUNT), 300)
    assert all(same(found, i) for i, found in zip(numbers, ds.get(numbers)))
    assert all(same(found, i) for i, found in enumerate(ds))
    assert len(os.listdir(cache)) == 1
    again = stored(client, bucket, count=20)
    assert (again.version, len(again), len(ds)) == (2, 20, COUNT)
    assert penstock.open("pets@1", client=client).hash == ds.hash
    with pytest.raises(penstock.NotFound, match="no version 7"):
        penstock.open("pets@7", client=client)
    with pytest.raises(penstock.NotFound):
        penstock.open("no-such", client=client)


def test_damage_on_a_node(client: penstock.Client, bucket: str, cache: Path) -> None:
    ds = stored(client, bucket, "other")
    where = ds.manifest.locate([100], "bin")
    name = f"{bucket}/other/{ds.manifest.shard(where.shards[0]).name}"
    whole = bytearray(client.get(name))
    whole[where.offsets[0]] ^= 1
    client.put(name, bytes(whole))
    found = ds.get([99, 100, 101], on_error="return")
    assert same(found[0], 99) and same(found[2], 101)
    error = found[1]
    assert isinstance(error, penstock.SampleError) and (error.index, error.kind) == (100, "Stale")
    client.delete(name)
    with pytest.raises(penstock.SampleError) as caught:
        ds[100]
    assert caught.value.kind == "NotFound"


def test_the_cache_is_used_and_mended(client: penstock.Client, bucket: str, cache: Path) -> None:
    ds = stored(client, bucket, "cached", 40)
    [kept] = cache.iterdir()
    manifest = client.get(f"{bucket}/cached/manifest-000001")
    assert kept.read_bytes() == manifest
    kept.write_bytes(manifest[:-1])
    assert len(penstock.open("cached", client=client)) == 40
    assert kept.read_bytes() == manifest
    kept.write_bytes(b"")
    assert same(penstock.open("cached", client=client)[7], 7)
    client.put(f"{bucket}/cached/manifest-000001", b"something else")
    assert same(penstock.open("cached", client=client)[7], 7)  # it is kept, and the node still has its record
    kept.unlink()
    with pytest.raises(penstock.PenstockError):
        penstock.open("cached", client=client)
    assert not [path for path in cache.iterdir()] and same(ds[3], 3)


def test_a_cache_that_cannot_be(
    client: penstock.Client, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="cannot be kept"):
        ds = stored(client, bucket, "homeless", 40)
    assert same(ds[7], 7)
    with pytest.warns(RuntimeWarning):
        assert same(pickle.loads(pickle.dumps(ds))[8], 8)


def test_a_node_that_goes_away(tmp_path: Path, cache: Path) -> None:
    node = Node(tmp_path).start()
    with penstock.Client(node.endpoint, attempts=2) as client:
        client.create_bucket("pets")
        ds = stored(client, "pets", count=60)
        assert same(ds[5], 5)
        node.kill()
        with pytest.raises(penstock.SampleError) as caught:
            ds[5]
        assert caught.value.kind == "Unavailable"
        node.start()
        assert same(ds[5], 5)
        node.stop()


# Writing.


def test_all_or_nothing(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    with pytest.raises(Stop), penstock.create("pets", to=tmp_path / "a", shard_size=4096) as w:
        for i in range(50):
            w.add(datasets.key(i), datasets.sample(i))
        raise Stop
    assert os.listdir(tmp_path / "a") == []
    write(tmp_path / "a", 10)
    write(tmp_path / "a", 12)
    assert versions(str(tmp_path / "a")) == [1, 2] and len(penstock.open(tmp_path / "a")) == 12
    os.rename(tmp_path / "a" / "manifest-000002", tmp_path / "a" / "manifest-000002.removed")
    with penstock.create("pets", to=tmp_path / "a") as w:
        assert w.version == 3  # a number is not given out twice
        w.add("k", {"n": 1})
        with pytest.raises(penstock.Busy):
            penstock.create("pets", to=tmp_path / "a")
    with pytest.raises(penstock.Exists, match="'pets', not 'dogs'"):
        penstock.create("dogs", to=tmp_path / "a")
    with pytest.raises(penstock.Invalid, match="no samples"), penstock.create("x", to=tmp_path / "b"):
        pass


def test_what_is_refused_changes_nothing(tmp_path: Path) -> None:
    with penstock.create("x", to=tmp_path) as w:
        w.add("a", {"bin": b"1", "n": 1})
        for key, sample in (
            ("a", {"bin": b"2"}), ("", {"bin": b""}), ("a.b", {"bin": b""}), ("../a", {"bin": b""}), ("/a", {"bin": b""}),
            ("b\n", {"bin": b""}), ("b", {"bin": 1}), ("b", {"n": b"1"}), ("b", {"n": "one"}), ("b", {"n": 1 << 63}),
            ("b", {"__x": b""}), ("b", {"A B": b""}), ("b", {"obj": object()}), ("b", {"t": "x" * 70000}), ("x" * 1025, {}),
        ):  # fmt: skip
            with pytest.raises(penstock.Invalid):
                w.add(key, sample)
        w.add("b", {"bin": memoryview(b"22"), "n": 2.5, "__key__": "b", "nothing": None})
    ds = penstock.open(tmp_path)
    assert list(ds) == [
        {"__key__": "a", "__index__": 0, "bin": b"1", "n": 1.0},
        {"__key__": "b", "__index__": 1, "bin": b"22", "n": 2.5},
    ]


def test_numpy_values(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    with penstock.create("x", to=tmp_path) as w:
        w.add("a", {"arr": np.arange(6, dtype=np.uint8).reshape(2, 3), "n": np.int64(3), "x": np.float32(0.5)})
    assert penstock.open(tmp_path)[0] == {"__key__": "a", "__index__": 0, "arr": bytes(range(6)), "n": 3, "x": 0.5}


def test_samples_without_bytes(tmp_path: Path) -> None:
    with penstock.create("x", to=tmp_path) as w:
        for i in range(100):
            w.add(f"{i}", {"n": i} if i % 2 else {"n": i, "bin": b""})
    ds = penstock.open(tmp_path)
    assert [s["n"] for s in ds] == list(range(100)) and ds[2]["bin"] == b"" and "bin" not in ds[3]


def test_two_writers_in_a_bucket(client: penstock.Client, bucket: str, cache: Path) -> None:
    one = penstock.create("twice", bucket=bucket, client=client)
    two = penstock.create("twice", bucket=bucket, client=client)
    for w, value in ((one, b"1"), (two, b"2")):
        w.add("k", {"bin": value})
    one.commit()
    with pytest.raises((penstock.Exists, penstock.Stale)):
        two.commit()
    assert penstock.open("twice", client=client)[0]["bin"] == b"1"
    left = [entry.key for entry in client.list(bucket, prefix="twice/")]
    assert len(left) == 2, left


# Parts of datasets.


def test_select(ds: penstock.Dataset) -> None:
    some = ds.select([5, 3, 9])
    assert [s["__index__"] for s in some] == [5, 3, 9] and same(some[1], 3) and len(some) == 3
    cats = ds.select("cat/*")
    assert len(cats) == len(range(0, COUNT, 3)) and all(k.startswith("cat/") for k in map(cats.key, range(5)))
    assert [s["__index__"] for s in cats.select([1])] == [3]
    masked = ds.select([i % 2 == 0 for i in range(COUNT)])
    assert len(masked) == COUNT // 2 and same(masked[3], 6)
    assert masked.find(datasets.key(8)) == 4
    with pytest.raises(penstock.NotFound):
        masked.find(datasets.key(9))
    with pytest.raises(penstock.Invalid, match="mask"):
        ds.select([True])
    with pytest.raises(IndexError):
        ds.select([COUNT])
    assert len({part.identity["selection"] for part in (ds, some, cats, masked, ds.select([5, 3]))}) == 5
    assert pickle.loads(pickle.dumps(cats)).identity == cats.identity


def test_split(ds: penstock.Dataset) -> None:
    train, rest = ds.split(0.9, seed=1)
    assert (len(train), len(rest)) == (630, 70)
    assert sorted([*train.numbers, *rest.numbers]) == list(range(COUNT))
    assert list(ds.split(0.9, seed=1)[0].numbers) == list(train.numbers) != list(ds.split(0.9, seed=2)[0].numbers)
    a, b, c = ds.split(0.8, 0.1)
    assert (len(a), len(b), len(c)) == (560, 70, 70)
    assert len(ds.split(0.5, 0.5)) == 2
    first, second = train.split(0.5, seed=9)
    assert len(first) == 315 and not set(first[i]["__index__"] for i in range(20)) & set(s["__index__"] for s in second)
    for wrong in ((), (0,), (1.5,), (0.7, 0.7)):
        with pytest.raises(penstock.Invalid):
            ds.split(*wrong)


def test_mix(tmp_path: Path, ds: penstock.Dataset) -> None:
    small = penstock.open(write(tmp_path / "small", 40))
    both = penstock.mix({ds: 0.7, small: 0.3}, block=10)
    assert len(both) == COUNT + 40
    assert same({k: v for k, v in both[COUNT + 3].items() if k != "__dataset__"}, 3)
    for policy in ("full", "window:100KiB", "none"):
        from penstock.order import Policy

        order = both.ordering(Policy.parse(policy), 5)
        epochs = [order.read(e, range(order.length)) for e in range(3)]
        whole = [i for epoch in epochs for i in epoch]
        for at in range(0, len(whole) - 10, 10):
            assert sum(i >= COUNT for i in whole[at : at + 10]) == 3  # exact in each block
        for start, size in ((0, COUNT), (COUNT, 40)):  # each dataset as a whole before it begins again
            uses = [i - start for i in whole if start <= i < start + size]
            for at in range(0, len(uses) - size, size):
                assert sorted(uses[at : at + size]) == list(range(size))
        assert order.read(1, range(33, 90, 7)) == epochs[1][33:90:7]
    with pytest.raises(penstock.Invalid):
        penstock.mix({ds: 0.0})


def test_mix_by_name(home: Path) -> None:
    assert len(penstock.mix({str(home): 1, f"file://{home}@1": 2})) == 2 * COUNT


def test_import_costs_nothing() -> None:
    code = "import sys, penstock; print([m for m in sys.modules if m in ('numpy', 'torch', 'penstock.dataset', 'multiprocessing')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
    assert "open" in dir(penstock)
    with warnings.catch_warnings():
        assert callable(penstock.open) and callable(penstock.create) and callable(penstock.mix)


def test_a_damaged_cache_is_mended(client: penstock.Client, bucket: str, cache: Path) -> None:
    stored(client, bucket, "mended", 40)
    [kept] = cache.iterdir()
    data = bytearray(kept.read_bytes())
    data[len(data) // 2] ^= 1
    kept.write_bytes(data)
    assert all(same(found, i) for i, found in enumerate(penstock.open("mended", client=client)))


def test_a_full_disk_under_the_cache(
    client: penstock.Client, bucket: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        ds = stored(client, bucket, "full", 40)
    assert same(ds[7], 7) and list(cache.iterdir()) == []


def test_a_mixture_has_no_parts(ds: penstock.Dataset) -> None:
    with pytest.raises(penstock.Invalid, match="then mix"):
        penstock.mix({ds: 1}).split(0.5)
    with pytest.raises(penstock.Invalid, match="then mix"):
        penstock.mix({ds: 1}).select([1])


def test_explain(ds: penstock.Dataset) -> None:
    mixed = ds.explain(batch_size=30, shuffle="full", measure=False)
    assert mixed.classes == mixed.full > 2.9 and mixed.rate == 0 and not mixed.pretended
    report = ds.explain(batch_size=30, shuffle="window:50KiB", measure=0.05)
    assert report.rate > 0 and report.ceiling in report.costs and "samples a second" in str(report)
    assert ds.select("cat/*").explain(batch_size=30, measure=False).classes == 1


WRITER = """
import os, signal, sys
import penstock
with penstock.create("pets", to=sys.argv[1], shard_size=2000) as w:
    for i in range(100):
        w.add(f"{i}", {"bin": os.urandom(500)})
        if i == 50:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_writer_that_is_killed(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WRITER, str(tmp_path)], timeout=60)
    assert done.returncode == -9 and len(os.listdir(tmp_path / "000001")) > 5
    with pytest.raises(penstock.NotFound, match="holds no dataset"):
        penstock.open(tmp_path)
    (tmp_path / "manifest-000001.new").write_bytes(b"half of it")
    write(tmp_path, 10)
    assert sorted(os.listdir(tmp_path)) == ["000001", "manifest-000001"]
    ds = penstock.open(tmp_path)
    assert len(ds) == 10 and len(os.listdir(tmp_path / "000001")) == ds.manifest.shards


def test_headers_are_those_of_tarfile() -> None:
    from penstock.packer import header as _header

    for name in ("a.b", "dir/0001.jpg", "x" * 100, "x" * 101, "d/" * 80 + "x.y", "é.txt", "x" * 300):
        for size in (0, 1, 511, 512, 12345678, (1 << 32) - 2):
            whole = io.BytesIO(_header(name, size) + bytes(1024))
            read = tarfile.TarFile(fileobj=whole).firstmember  # which checks the checksum
            assert read is not None and (read.name, read.size, read.mode, read.isreg()) == (name, size, 0o644, True)
            info = tarfile.TarInfo(name)
            info.size = size
            if sys.version_info >= (3, 11):  # before it a file had device numbers
                assert _header(name, size) == info.tobuf(tarfile.PAX_FORMAT)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    with penstock.create("x", to=tmp_path) as w:
        w.add("a", {"n": 1})
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        child.start()
    try:
        with penstock.create("x", to=tmp_path) as w:
            w.add("a", {"n": 2})
    finally:
        child.kill()
        child.join()


def test_a_class_of_a_refused_sample(tmp_path: Path) -> None:
    with penstock.create("x", to=tmp_path) as w:
        w.add("a", {"cls": "cat"})
        for sample in ({"cls": "wolf", "obj": object()}, {"cls": "\ud800"}, {"cls": "fox", "t": "a\udfff"}):
            with pytest.raises(penstock.Invalid):
                w.add("b", sample)
        w.add("b", {"cls": "dog"})
    assert penstock.open(tmp_path).classes == ("cat", "dog")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_manifest_that_is_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "manifest-000001")
    program = f"import penstock; penstock.open({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20)
    assert "Invalid" in done.stderr and "is not a file" in done.stderr


def test_no_file_is_left_to_open(home: Path) -> None:
    resource = pytest.importorskip("resource", reason="there is no limit to set")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    ds = penstock.open(home)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
        ds.get(range(COUNT // 2))
        with pytest.raises(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        assert all(same(found, i) for i, found in enumerate(ds.get(range(COUNT))))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in taken:
            os.close(fd)
