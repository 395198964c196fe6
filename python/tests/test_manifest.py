"""Manifests: the vectors that Go wrote, damage, and the ways of processes."""

from __future__ import annotations

import gc
import hashlib
import json
import multiprocessing
import os
import pickle
import random
import shutil
import struct
import sys
import threading
import zlib
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.manifest import Manifest

VECTORS = Path(__file__).resolve().parents[2] / "testdata" / "vectors" / "manifest"
ALL = {path.stem: json.loads(path.read_text()) for path in sorted(VECTORS.glob("*.json"))}
GOOD = [name for name, vector in ALL.items() if "error" not in vector]
BAD = [name for name, vector in ALL.items() if "error" in vector]


@pytest.fixture
def dice() -> random.Random:
    """What is random, with a seed that is shown when a test fails."""
    seed = random.getrandbits(32)
    print("seed", seed)
    return random.Random(seed)


def file(name: str) -> Path:
    return VECTORS / f"{name}.bin"


def describe(m: Manifest, prefixes: Any = ()) -> dict[str, Any]:
    """Read everything, in the form of the vectors."""
    columns = [m.column(name) for name in m.columns]
    pieces: dict[str, list[Any]] = {}
    for field in m.fields:
        where = m.locate(range(len(m)), field)
        sums = where.checksums if where.checksums is not None else [None] * len(m)
        pieces[field] = [
            None if size < 0 else {"shard": shard, "offset": offset, "size": size, "crc32": crc}
            for shard, offset, size, crc in zip(where.shards, where.offsets, where.sizes, sums)
        ]
    samples = []
    for i in range(len(m)):
        key = m.key(i)
        assert m.find(key) == i and key in m
        samples.append({"key": key, "pieces": [pieces[f][i] for f in m.fields], "values": [c[i] for c in columns]})
    assert sorted(m.prefix("")) == list(range(len(m)))
    return {
        "name": m.name, "version": m.version, "created": m.created, "seed": m.seed, "chunk": m.chunk_samples,
        "hash": m.hash, "tag": m.tag, "fields": list(m.fields),
        "columns": [[c.name, c.type, c.optional, list(c.classes)] for c in columns],
        "shards": [list(m.shard(s)) for s in range(m.shards)],
        "samples": samples, "prefixes": {p: list(m.prefix(p)) for p in prefixes},
    }  # fmt: skip


def expected(vector: dict[str, Any]) -> dict[str, Any]:
    """The vector, with what Go leaves out when it is empty."""
    samples = [{"pieces": [], "values": [], **sample} for sample in vector.get("samples", [])]
    return {
        **{name: vector[name] for name in ("name", "version", "created", "seed", "chunk", "hash", "tag", "prefixes")},
        "fields": [f["name"] for f in vector.get("fields", [])],
        "columns": [[c["name"], c["type"], c.get("optional", False), c.get("classes", [])] for c in vector.get("columns", [])],
        "shards": [[s["name"], s["size"], s.get("tag", ""), s["format"]] for s in vector.get("shards", [])],
        "samples": samples,
    }  # fmt: skip


def test_there_are_vectors() -> None:
    assert len(GOOD) > 5 and len(BAD) > 10


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("way", ["mapped", "read", "bytes"])
def test_good_vectors(name: str, way: str) -> None:
    m = Manifest(file(name).read_bytes()) if way == "bytes" else Manifest.open(file(name), map=way == "mapped")
    with m:
        assert describe(m, ALL[name]["prefixes"]) == expected(ALL[name])
        m.verify()


@pytest.mark.parametrize("name", BAD)
def test_bad_vectors(name: str) -> None:
    vector = ALL[name]
    error = getattr(penstock, vector["error"])
    if vector["at"] == "open":
        with pytest.raises(error, match="manifest"):
            Manifest.open(file(name))
        return
    with Manifest.open(file(name)) as m:
        if vector["at"] == "read":
            with pytest.raises(error):
                describe(m)
        else:
            describe(m)
        if vector["at"] == "verify" or name.startswith("bad"):
            with pytest.raises(error):
                m.verify()


def test_flipped_bits_are_found(dice: random.Random) -> None:
    """One bit of each byte: all of them take too long, and Go's test does that."""
    data = bytearray(file("fields").read_bytes())
    want = describe(Manifest(bytes(data)))
    for at in range(len(data)):
        bit = 1 << dice.randrange(8)
        data[at] ^= bit
        try:
            m = Manifest(bytes(data))
        except (penstock.Corrupt, penstock.Invalid):
            pass
        else:
            with pytest.raises(penstock.Corrupt):
                m.verify()
            try:
                assert describe(m) == want
            except penstock.Corrupt:
                pass
        data[at] ^= bit


def seal(data: bytearray) -> bytes:
    """Make all checksums right again: what is left is what a program that means ill could write."""
    head, table = struct.unpack_from("<I", data, 16)[0], struct.unpack_from("<Q", data, 40)[0]
    for block in range(-(-table // 65536)):
        content = data[max(head, block * 65536) : min(table, (block + 1) * 65536)]
        struct.pack_into("<I", data, table + 4 * block, zlib.crc32(content))
    data[112:144] = hashlib.sha256(data[table:]).digest()
    data[20:24] = bytes(4)
    struct.pack_into("<I", data, 20, zlib.crc32(data[:head]))
    return bytes(data)


@pytest.mark.parametrize("name", ["fields", "columns", "plain"])
def test_what_makes_no_sense_is_corrupt(name: str, dice: random.Random) -> None:
    """With good checksums everything is refused as Corrupt, or is another manifest; nothing else is raised."""
    good = file(name).read_bytes()
    table = struct.unpack_from("<Q", good, 40)[0]
    for at in [*range(24, 40), *range(48, table, 3)]:
        data = bytearray(good)
        data[at] = dice.choice([0, 255, data[at] ^ 128, data[at] + 1 & 255])
        try:
            describe_what_there_is(Manifest(seal(data)))
        except penstock.Corrupt:
            pass


def describe_what_there_is(m: Manifest) -> None:
    """Like describe, without the belief that keys differ or are found."""
    for field in m.fields:
        m.locate(range(len(m)), field)
    for i in range(len(m)):
        try:
            m.find(m.key(i))
        except penstock.NotFound:
            pass
        for name in m.columns:
            m.column(name)[i]
    for s in range(m.shards):
        m.shard(s)
    list(m.prefix("n"))


def test_damage_is_found_where_it_is() -> None:
    """Blocks are checked one by one, when they are used; the rest stays good."""
    data = bytearray(file("blocks").read_bytes())
    data[-4000] ^= 1
    m = Manifest(bytes(data))
    assert m.key(0) == ALL["blocks"]["samples"][0]["key"]
    for _ in range(2):
        with pytest.raises(penstock.Corrupt, match="sizes are damaged"):
            m.locate([0], "a")
    with pytest.raises(penstock.Corrupt):
        m.verify()


def test_locate(dice: random.Random) -> None:
    with Manifest.open(file("fields")) as m:
        samples = ALL["fields"]["samples"]
        for f, field in enumerate(m.fields):
            for _ in range(50):
                indices = dice.choices(range(len(m)), k=dice.randrange(6))
                where = m.locate(indices, field)
                assert [len(part) for part in where if part is not None] == [len(indices)] * (4 if m.checked(field) else 3)
                for n, i in enumerate(indices):
                    piece = samples[i]["pieces"][f]
                    if piece is None:
                        assert (where.shards[n], where.sizes[n]) == (-1, -1)
                    else:
                        assert (where.shards[n], where.offsets[n], where.sizes[n]) == (piece["shard"], piece["offset"], piece["size"])
        for wrong in ([-1], [0, len(m)], [len(m)], [0, -1, 0]):
            with pytest.raises(IndexError):
                m.locate(wrong, "jpg")
        with pytest.raises(penstock.NotFound, match="it has jpg, txt, raw"):
            m.locate([0], "png")


def test_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(penstock.NotFound):
        Manifest.open(tmp_path / "none")
    (tmp_path / "empty").touch()
    with pytest.raises(penstock.Invalid):
        Manifest.open(tmp_path / "empty")
    with pytest.raises(penstock.Invalid):
        Manifest(b"")
    with Manifest.open(file("columns")) as m:
        for call in (m.key, m.column("number").__getitem__):
            for i in (-1, len(m)):
                with pytest.raises(IndexError):
                    call(i)
        with pytest.raises(IndexError):
            m.shard(0)
        with pytest.raises(penstock.NotFound):
            m.column("none")
        for key in ("", "none", "\ud800", "x" * 5000):
            assert key not in m
            with pytest.raises(penstock.NotFound):
                m.find(key)
        assert 7 not in m
        with pytest.raises(penstock.Invalid):
            m.column("caption").numbers([0])
    with pytest.raises(ValueError):
        m.key(0)
    m.close()


def test_columns() -> None:
    with Manifest.open(file("columns")) as m:
        samples = ALL["columns"]["samples"]
        numbers, given = m.column("number"), m.column("given")
        assert list(numbers.values) == [sample["values"][0] for sample in samples] == list(numbers.numbers(range(len(m))))
        assert given.classes == ("zebra", "ape", "never") and m.column("sorted").classes == ("a", "b", "c", "日本")
        assert [given.classes[code] for code in given.values] == [sample["values"][4] for sample in samples]
        assert given.numbers([0, 1]) == (0, 1) and given.numbers([]) == () and given.numbers([1]) == (1,)
        assert given.present is None
        bits = m.column("weight").present
        assert bits is not None and [bits[i >> 3] >> (i & 7) & 1 for i in range(len(m))] == [i % 2 for i in range(len(m))]
        assert numbers.values.readonly and len(numbers) == len(m)


def test_numpy_takes_columns_and_indices() -> None:
    numpy = pytest.importorskip("numpy")
    m = Manifest.open(file("columns"))
    array = numpy.asarray(m.column("weight").values)
    assert array.dtype == numpy.float64 and array[5] == 1.25
    assert m.column("number").numbers(numpy.array([2, 1])) == (2 - (1 << 62), 1 - (1 << 62))
    m.close()
    assert array[7] == 1.75  # the mapping lives as long as the array


def test_pickles_as_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(file("fields"), tmp_path / "m")
    monkeypatch.chdir(tmp_path)
    with Manifest.open("m") as m:
        pickled = pickle.dumps(m)
    assert len(pickled) < 1000
    monkeypatch.chdir("/")
    with pickle.loads(pickled) as again:
        assert describe(again) == describe(Manifest.open(file("fields")))
    # Other places are fine, other samples are not.
    shutil.copy(file("learnt"), tmp_path / "new")
    os.replace(tmp_path / "new", tmp_path / "m")
    pickle.loads(pickled).close()
    shutil.copy(file("plain"), tmp_path / "new")
    os.replace(tmp_path / "new", tmp_path / "m")
    with pytest.raises(penstock.Stale):
        pickle.loads(pickled)
    data = Manifest(file("far").read_bytes())
    assert describe(pickle.loads(pickle.dumps(data))) == describe(data)


def test_a_manifest_that_is_replaced_stays_as_it_was(tmp_path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("a mapped file cannot be replaced there")
    shutil.copy(file("blocks"), tmp_path / "m")
    with Manifest.open(tmp_path / "m") as m:
        shutil.copy(file("plain"), tmp_path / "new")
        os.replace(tmp_path / "new", tmp_path / "m")
        assert describe(m)["hash"] == ALL["blocks"]["hash"]


def child(m: Manifest, out: Any) -> None:
    out.put((m.key(3), m.locate([3, 1], "jpg")))


@pytest.mark.parametrize("way", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_in_other_processes(way: str) -> None:
    if way not in multiprocessing.get_all_start_methods():
        pytest.skip(f"there is no {way} here")
    context = multiprocessing.get_context(way)
    with Manifest.open(file("plain")) as m:
        out = context.Queue()
        process = context.Process(target=child, args=(m, out))
        process.start()
        assert out.get(timeout=60) == (m.key(3), m.locate([3, 1], "jpg"))
        process.join()
        assert process.exitcode == 0


def test_threads() -> None:
    with Manifest.open(file("blocks")) as m:
        want, wrong = describe(m), []
        fresh = Manifest.open(file("blocks"))

        def work() -> None:
            if describe(fresh) != want:
                wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        fresh.close()


def test_nothing_stays_open() -> None:
    """Neither with close nor without, nor when opening fails."""
    if not os.path.exists("/proc/self/maps"):
        pytest.skip("mappings cannot be counted here")
    gc.collect()
    with Manifest.open(file("plain")) as m:
        describe(m)
    describe(Manifest.open(file("plain")))
    with pytest.raises(penstock.Corrupt):
        Manifest.open(file("bad-head"))
    assert str(VECTORS) not in Path("/proc/self/maps").read_text()
