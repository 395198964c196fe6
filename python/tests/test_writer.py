"""Versions that add to the one before, and versions that many write together: whole, or not at all."""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import json
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import datasets
import pytest
from conftest import ROOT

import penstock
from penstock.transport import Call, Transport
from penstock.writer import Part, Writer

BINARY = os.environ.get("PENSTOCK_BINARY") or str(ROOT / "bin" / "penstock")


class Place:
    """A directory or a bucket that versions are made in."""

    def __init__(self, options: dict[str, Any], name: str, where: str, client: penstock.Client) -> None:
        self.options, self.name, self.where, self.client = options, name, where, client

    def create(self, **options: Any) -> Writer:
        return penstock.create(self.name, **{**self.options, "shard_size": 8 << 10, **options})

    def open(self, version: int | None = None) -> penstock.Dataset:
        return penstock.open(self.where if version is None else f"{self.where}@{version}", client=self.client)

    def files(self) -> list[str]:
        if "to" in self.options:
            home = Path(self.options["to"])
            return sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())
        entries = self.client.list(self.options["bucket"], prefix=f"{self.name}/")
        return [entry.key.removeprefix(f"{self.name}/") for entry in entries]

    def check(self, version: int | None = None) -> None:
        """Have the command read everything, and see that there is nothing else."""
        where = self.where if version is None else f"{self.where}@{version}"
        environment = {**os.environ, "PENSTOCK_ENDPOINT": self.client.endpoint}
        done = subprocess.run(
            [BINARY, "dataset", "verify", where], capture_output=True, text=True, timeout=60, env=environment
        )
        assert done.returncode == 0 and "no damage" in done.stdout + done.stderr, done.stdout + done.stderr

    def tidy(self, *versions: int) -> None:
        """All that is there belongs to one of these versions."""
        named = {f"manifest-{v:06}" for v in versions}
        for v in versions:
            manifest = self.open(v).manifest
            named |= {manifest.shard(s).name for s in range(manifest.shards)}
        assert set(self.files()) == named


@pytest.fixture(params=["directory", "bucket"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, client: penstock.Client, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Place:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if request.param == "directory":
        return Place({"to": tmp_path / "pets"}, "pets", str(tmp_path / "pets"), client)
    name = f"pets-{bucket}"
    return Place({"bucket": bucket, "client": client}, name, name, client)


def fill(w: Writer | Part, numbers: range) -> None:
    for i in numbers:
        w.add(datasets.key(i), datasets.sample(i))


def holds(ds: penstock.Dataset, wanted: dict[str, dict[str, Any]]) -> None:
    """The dataset has these samples, in this order."""
    found = {}
    for sample in ds:
        key = sample.pop("__key__")
        sample.pop("__index__")
        if "cls" in sample:
            sample["cls"] = ds.classes[sample["cls"]]
        found[key] = sample
    assert list(found) == list(wanted)
    assert found == wanted


def world(*numbers: int) -> dict[str, dict[str, Any]]:
    return {datasets.key(i): datasets.sample(i) for i in numbers}


# Versions that add to another.


def test_adding(place: Place) -> None:
    with place.create() as w:
        fill(w, range(60))
    first = place.files()
    with place.create(base=True) as w:
        assert w.version == 2
        fill(w, range(50, 70))  # ten that are there already, ten that are new
        w.add(datasets.key(80), {"bin": b"x", "cls": "fox"})
    wanted = {**world(*range(70)), datasets.key(80): {"bin": b"x", "cls": "fox"}}
    ds = place.open()
    holds(ds, wanted)
    assert ds.version == 2 and ds.classes == (*datasets.WORDS, "fox") and set(first) < set(place.files())
    shards = ds.manifest.locate(range(71), "bin").shards
    assert [ds.manifest.shard(s).name[:7] for s in shards] == ["000001/"] * 60 + ["000002/"] * 11
    holds(place.open(1), world(*range(60)))
    place.check()
    place.tidy(1, 2)


def test_changing_and_removing(place: Place) -> None:
    with place.create() as w:
        fill(w, range(30))
    with place.create(base=f"{place.name}@1") as w:
        w.add(datasets.key(7), {"bin": b"changed", "cls": "owl"})
        w.remove(datasets.key(3))
        w.remove(datasets.key(29))
        for wrong in (datasets.key(7), datasets.key(3)):
            with pytest.raises(penstock.Invalid):
                (w.remove if wrong == datasets.key(7) else lambda key: w.add(key, {"bin": b""}))(wrong)
        with pytest.raises(penstock.NotFound, match="nobody"):
            w.remove("nobody")
    wanted = world(*(i for i in range(29) if i not in (3, 7)))
    wanted[datasets.key(7)] = {"bin": b"changed", "cls": "owl"}
    holds(place.open(), wanted)
    with place.create(base=2) as w:
        for key in list(wanted)[:-1]:
            w.remove(key)
    holds(place.open(), {datasets.key(7): wanted[datasets.key(7)]})
    place.check(2)
    place.check(3)
    place.tidy(1, 2, 3)
    with pytest.raises(penstock.Invalid, match="no samples"), place.create(base=True) as w:
        w.remove(datasets.key(7))
    place.tidy(1, 2, 3)


def test_nothing_new(place: Place) -> None:
    with place.create(base=True) as w:  # there is none yet
        fill(w, range(20))
    assert place.open().version == 1
    with place.create(base=True) as w:
        fill(w, range(10))
    assert w.version == 1 and place.open().version == 1
    place.tidy(1)
    with place.create() as w:
        fill(w, range(5))
    with place.create(base=1) as w:  # back to what was before
        pass
    assert w.commit() == w.version == 3
    holds(place.open(), world(*range(20)))
    place.check()
    place.tidy(1, 2, 3)


def test_bases_that_cannot_be(place: Place) -> None:
    for base in (place.name, f"{place.name}@1", 1):
        with pytest.raises(penstock.NotFound):
            place.create(base=base)
    with place.create() as w:
        fill(w, range(3))
    for wrong in ("dogs@1", f"{place.name}@x", f"{place.name}@0", 0, -1):
        with pytest.raises(penstock.Invalid):
            place.create(base=wrong)
    with pytest.raises(penstock.NotFound):
        place.create(base=f"{place.name}@9")
    place.tidy(1)
    with place.create(base=place.name) as w:  # nothing is left locked
        fill(w, range(4))
    assert len(place.open()) == 4


def test_columns_and_fields_of_a_base(place: Place) -> None:
    with place.create() as w:
        w.add("a", {"bin": b"1", "n": 1, "cls": "cat"})
    with place.create(base=True, classes={"cls": ["dog", "cat", "owl"]}) as w:
        w.add("b", {"bin": b"2", "n": 2.5, "cls": "owl", "png": b"new", "word": "hi"})
        for wrong in ({"bin": 1}, {"n": b"1"}, {"n": "one"}, {"cls": 3}):
            with pytest.raises(penstock.Invalid):
                w.add("c", wrong)
    ds = place.open()
    assert ds.fields == ("bin", "png") and ds.columns == ("cls", "n", "word") and ds.classes == ("cat", "dog", "owl")
    assert list(ds) == [
        {"__key__": "a", "__index__": 0, "bin": b"1", "n": 1.0, "cls": 0},
        {"__key__": "b", "__index__": 1, "bin": b"2", "n": 2.5, "cls": 2, "png": b"new", "word": "hi"},
    ]
    place.check()


def test_a_version_of_the_command_as_base(place: Place, tmp_path: Path) -> None:
    source = tmp_path / "source"
    for i in range(30):
        folder = source / datasets.WORDS[i % 3]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i}.bin").write_bytes(datasets.sample(i)["bin"])
        (folder / f"{i}.n").write_text(str(i))
    where = ["--to", str(place.options["to"])] if "to" in place.options else ["--bucket", place.options["bucket"]]
    environment = {**os.environ, "PENSTOCK_ENDPOINT": place.client.endpoint}
    for form in ([], ["--repack", "--records"]):
        command = [BINARY, "dataset", "create", place.name, "--from", str(source), *where, "--class-from-folder", "--column", "n:int"]  # fmt: skip
        subprocess.run([*command, *form], check=True, capture_output=True, timeout=60, env=environment)
        before = place.open()
        with place.create(base=True) as w:
            w.add("cat/0", {"bin": datasets.sample(0)["bin"], "n": 0, "cls": "cat"})  # the same
            w.add("new", {"bin": b"1", "cls": "zebra"})
            w.remove("dog/1")
        after = place.open()
        assert after.version == before.version + 1 and after.columns == before.columns == ("cls", "n")
        keys = [key for key in map(before.key, range(30)) if key != "dog/1"]
        assert [after.key(i) for i in range(30)] == [*keys, "new"]
        for sample in list(after)[:-1]:
            word, number = sample["__key__"].split("/")
            assert after.classes[sample["cls"]] == word and sample["n"] == int(number)
            assert sample["bin"] == datasets.sample(int(number))["bin"]
        place.check()
    # And the command goes on from there.
    done = subprocess.run([*command, "--json"], check=True, capture_output=True, timeout=60, env=environment)
    assert place.open().version == 5, done.stdout
    place.check()


def test_laws_of_adding(place: Place) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(1 << 32)))
    print("PENSTOCK_SEED", seed)
    dice = random.Random(seed)
    wanted: dict[str, dict[str, Any]] = {}
    for round in range(6):
        parts = dice.randrange(3)
        with place.create(base=True, classes={"cls": datasets.WORDS}, shard_size=dice.choice((500, 4000, 1 << 20))) as w:
            gone = dice.sample(sorted(wanted), min(len(wanted) // 3, dice.randrange(10))) if wanted else []
            for key in gone:
                w.remove(key)
                del wanted[key]
            by: dict[str, list[tuple[str, Any]]] = {}
            for i in dice.sample(range(60), dice.randrange(1, 30)):
                key = datasets.key(i)
                if key in gone:
                    continue
                sample = datasets.sample(i + 3 * dice.randrange(2))
                by.setdefault(str(dice.randrange(parts + 1)), []).append((key, sample))
            for whose in sorted(by):
                for key, sample in by[whose]:
                    if wanted.get(key) != sample:
                        wanted.pop(key, None)
                        wanted[key] = sample
            for whose in dice.sample(sorted(by), len(by)):  # in any order
                part = w if whose == "0" else w.part(int(whose))
                for key, sample in by[whose]:
                    part.add(key, sample)
                if isinstance(part, Part):
                    part.close()
            if not wanted:
                w.add("last", {"bin": b"1"})
                wanted["last"] = {"bin": b"1"}
        holds(place.open(), wanted)
    place.check()
    place.tidy(*range(1, place.open().version + 1))


# Versions that many write together.


def _fill(part: Part, numbers: range) -> None:
    with part:
        fill(part, numbers)


def _threads(w: Writer, shares: list[range]) -> None:
    with ThreadPoolExecutor(len(shares)) as pool:
        list(pool.map(_fill, [w.part(i) for i in range(len(shares))], shares))


def _processes(method: str) -> Callable[[Writer, list[range]], None]:
    def run(w: Writer, shares: list[range]) -> None:
        context = multiprocessing.get_context(method)
        started = [context.Process(target=_fill, args=(w.part(i), share)) for i, share in enumerate(shares)]
        for process in reversed(started):
            process.start()
        for process in started:
            process.join(60)
            assert process.exitcode == 0

    return run


CLASSES = {"cls": datasets.WORDS}


@pytest.mark.parametrize("how", ["threads", "fork", "spawn"])
def test_parts(place: Place, how: str) -> None:
    shares = [range(20, 60), range(60, 61), range(61, 61), range(61, 100)]
    with place.create(classes=CLASSES) as w:
        fill(w, range(20))
        (_threads if how == "threads" else _processes(how))(w, shares)
        with pytest.raises(penstock.NotFound):
            place.open()
    holds(place.open(), world(*range(100)))
    place.check()
    place.tidy(1)


def test_the_same_samples_whoever_is_faster(place: Place) -> None:
    hashes = []
    for order in ((0, 1, 2), (2, 0, 1)):
        with place.create(classes=CLASSES) as w:
            parts = [w.part(i) for i in range(3)]
            for i in order:
                _fill(parts[i], range(i * 10, i * 10 + 10))
        hashes.append(place.open().hash)
    assert hashes[0] == hashes[1]


def test_parts_of_a_version_with_a_base(place: Place) -> None:
    with place.create(classes=CLASSES) as w:
        fill(w, range(30))
    with place.create(base=True) as w:  # its classes are known
        shares = [range(0, 40), range(40, 50)]
        _processes("spawn")(w, shares)
        w.remove(datasets.key(41 - 12))
        with pytest.raises(penstock.Invalid, match="removed, and added by a part"):
            w.commit()
    assert place.open().version == 1
    with place.create(base=True) as w:
        _processes("spawn")(w, shares)
        w.add("new", {"bin": b"1"})
    holds(place.open(), {**world(*range(30)), "new": {"bin": b"1"}, **world(*range(30, 50))})
    shards = place.open().manifest.locate(range(51), "bin").shards
    assert [place.open().manifest.shard(s).name[:7] for s in shards] == ["000001/"] * 30 + ["000002/"] * 21
    place.check()
    place.tidy(1, 2)


def test_parts_that_are_not_closed(place: Place) -> None:
    with pytest.raises(penstock.Invalid, match=r"1 of 2 parts were not closed: 1\."), place.create() as w:
        _fill(w.part(0), range(0))
        w.part(1).add("a", {"bin": b"1" * 10_000})
    assert place.files() == []
    with place.create(classes=CLASSES) as w:
        part = w.part(5)
        fill(part, range(10))
        with pytest.raises(penstock.Invalid, match="not closed: 5"):
            w.commit()
        part.close()
    holds(place.open(), world(*range(10)))
    place.tidy(1)


def _die(part: Part) -> None:
    fill(part, range(50))
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_part_that_is_killed(place: Place) -> None:
    context = multiprocessing.get_context("spawn")
    with place.create(classes=CLASSES) as w:
        part = w.part(0)
        process = context.Process(target=_die, args=(part,))
        process.start()
        process.join(60)
        assert process.exitcode == -9
        with pytest.raises(penstock.Invalid, match="not closed: 0"):
            w.commit()
        with pytest.raises(RuntimeError), part:  # and one that fails
            fill(part, range(40))
            raise RuntimeError
        _fill(part, range(30))  # again, from its beginning
        with pytest.raises(penstock.Exists, match="handed in before"):
            _fill(w.part(0), range(20))
    holds(place.open(), world(*range(30)))
    place.check()
    place.tidy(1)


def test_parts_that_do_not_fit(place: Place) -> None:
    for one, other, kind, words in (
        ({"bin": b"1"}, {"bin": 1}, penstock.Invalid, "bin is bytes in some"),
        ({"n": 1}, {"n": "one"}, penstock.Invalid, "column n holds"),
    ):
        with pytest.raises(kind, match=words), place.create() as w:
            for i, sample in enumerate((one, other)):
                with w.part(i) as part:
                    part.add(f"{i}", sample)
    with pytest.raises(penstock.Exists, match="two samples have the key 'a'"), place.create() as w:
        for i in range(2):
            with w.part(i) as part:
                part.add("a", {"bin": b"1"})
    with pytest.raises(penstock.Invalid, match="name all of them"), place.create() as w:
        w.part(0).add("a", {"cls": "cat"})
    assert place.files() == []
    with place.create() as w:  # ints and floats do
        for i, value in enumerate((1, 2.5)):
            with w.part(i) as part:
                part.add(f"{i}", {"n": value})
        for wrong in (-1, 1_000_000):
            with pytest.raises(penstock.Invalid):
                w.part(wrong)
    assert [sample["n"] for sample in place.open()] == [1.0, 2.5]
    with pytest.raises(penstock.Exists, match="two samples have the key '0'"), place.create(base=True) as w:
        for i in range(2):  # one is as the base has it, the other is not
            with w.part(i) as part:
                part.add("0", {"n": 1.0 + i})
    place.check()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_who_may_do_what(place: Place) -> None:
    with place.create() as w:
        with pytest.raises(penstock.Invalid, match="send parts"):
            pickle.dumps(w)
        part = w.part(0)
        assert len(pickle.dumps(part)) < 2000
        part.add("a", {"bin": b"1"})
        with pytest.raises(penstock.Invalid, match="has begun"):
            pickle.dumps(part)
        child = os.fork()
        if child == 0:  # whatever a child does to what it has inherited, nothing comes of it
            status = 0
            for act in (lambda: part.add("b", {"bin": b"2"}), w.commit, lambda: w.add("c", {"bin": b"3"})):
                try:
                    act()
                except penstock.Invalid:
                    status += 1
            part.abandon()
            w.abandon()
            os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        part.close()
        part.close()
        with pytest.raises(penstock.Invalid, match="is closed"):
            part.add("b", {"bin": b"2"})
    assert len(place.open()) == 1
    with pytest.raises(penstock.Invalid, match="published or given up"):
        w.part(1)
    place.tidy(1)


KILLED = """
import os, sys, signal
import penstock
options = {"to": sys.argv[1]} if sys.argv[1][0] == "/" else {"bucket": sys.argv[1], "client": penstock.Client(sys.argv[2])}
w = penstock.create(sys.argv[3], shard_size=2000, **options)
for i in range(3):
    part = w.part(i)
    for j in range(20):
        part.add(f"{i}/{j}", {"bin": os.urandom(500)})
    if i:
        part.close()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_writer_that_is_killed(place: Place) -> None:
    where = str(place.options.get("to") or place.options["bucket"])
    done = subprocess.run([sys.executable, "-c", KILLED, where, place.client.endpoint, place.name], timeout=60)
    assert done.returncode == -9 and len(place.files()) > 10
    with pytest.raises(penstock.NotFound):
        place.open()
    with place.create() as w:  # takes no part of the one before for its own
        w.part(1)
        w.add("a", {"bin": b"1"})
        with pytest.raises(penstock.Invalid, match="not closed: 1"):
            w.commit()
        w.part(1).close()
    assert len(place.open()) == 1
    place.check()
    place.tidy(1)


def test_many_threads_and_parts(place: Place) -> None:
    """Threads take parts as they come."""
    with place.create(classes=CLASSES) as w:
        left = list(range(40))
        failed: list[BaseException] = []

        def work() -> None:
            try:
                while True:
                    i = left.pop()
                    _fill(w.part(i), range(i * 5, i * 5 + 5))
            except IndexError:
                pass
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not failed
    holds(place.open(), world(*range(200)))
    place.tidy(1)


def test_the_base_is_removed_meanwhile(client: penstock.Client, bucket: str) -> None:
    with penstock.create("gone", bucket=bucket, client=client) as w:
        w.add("a", {"bin": b"1"})
    environment = {**os.environ, "PENSTOCK_ENDPOINT": client.endpoint}
    with pytest.raises(penstock.NotFound, match="version 1"), penstock.create(
        "gone", bucket=bucket, client=client, base=True
    ) as w:
        w.add("b", {"bin": b"2"})
        subprocess.run([BINARY, "dataset", "rm", "gone@1", "--force"], check=True, capture_output=True, env=environment)
    assert [entry.key for entry in client.list(bucket, prefix="gone/")] == []
    shown = subprocess.run([BINARY, "dataset", "ls", "--json"], check=True, capture_output=True, env=environment)
    assert "gone" not in json.dumps(json.loads(shown.stdout))


# What may have happened all the same stays.


def _call(monkeypatch: pytest.MonkeyPatch, act: Callable[[Callable[[], Any]], Any], method: str = "PUT") -> None:
    """Have something done about requests for a dataset."""
    real = Transport.json

    def json(self: Transport, call: Call, parse: Any) -> Any:
        if call.method == method and call.path.startswith("/v1/datasets/"):
            return act(lambda: real(self, call, parse))
        return real(self, call, parse)

    monkeypatch.setattr(Transport, "json", json)


@pytest.mark.parametrize("happened", [True, False])
def test_a_commit_that_is_interrupted(
    client: penstock.Client, bucket: str, monkeypatch: pytest.MonkeyPatch, happened: bool
) -> None:
    def interrupt(ask: Callable[[], Any]) -> None:
        if happened:
            ask()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), monkeypatch.context() as m:
        _call(m, interrupt)
        with penstock.create(f"torn-{bucket}", bucket=bucket, client=client) as w:
            w.add("a", {"bin": b"1" * 100})
    if happened:
        assert penstock.open(f"torn-{bucket}", client=client)[0]["bin"] == b"1" * 100
    with penstock.create(f"torn-{bucket}", bucket=bucket, client=client, base=True) as w:
        w.add("b", {"bin": b"2"})
    assert len(penstock.open(f"torn-{bucket}", client=client)) == 1 + happened


def test_a_first_commit_that_never_arrives(
    client: penstock.Client, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Callable[[], Any]) -> None:
        raise penstock.Unavailable("nobody answers")

    with pytest.raises(penstock.Unavailable, match="nobody answers"), monkeypatch.context() as m:
        _call(m, fail)
        with penstock.create(f"first-{bucket}", bucket=bucket, client=client) as w:
            w.add("a", {"bin": b"1"})
    assert [entry.key for entry in client.list(bucket)] == []  # it is clear that it is not there


def test_a_part_that_may_have_been_handed_in(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with place.create(classes=CLASSES) as w:
        for happened in (False, True):
            draft = type(w._draft)
            real = draft.hand_in

            def hand_in(self: Any, number: int, manifest: bytes, happened: bool = happened, real: Any = real) -> None:
                if happened:
                    real(self, number, manifest)
                raise KeyboardInterrupt if happened else penstock.Unavailable("nobody answers")

            with monkeypatch.context() as m, pytest.raises((KeyboardInterrupt, penstock.Unavailable)):
                m.setattr(draft, "hand_in", hand_in)
                _fill(w.part(0), range(10))
        with pytest.raises(penstock.Exists, match="handed in before"):
            _fill(w.part(0), range(10))
    holds(place.open(), world(*range(10)))
    place.check()
    place.tidy(1)


def test_a_part_that_is_late(place: Place) -> None:
    with place.create(classes=CLASSES) as w:
        late, later = (pickle.loads(pickle.dumps(w.part(0))) for _ in range(2))
        fill(late, range(5))
        _fill(w.part(0), range(10))
        same = w.part(0)
    for part, numbers in ((late, range(5, 15)), (later, range(10, 20)), (same, range(3))):
        with pytest.raises(penstock.Exists, match="is published"):
            _fill(part, numbers)
    holds(place.open(), world(*range(10)))
    place.check()
    place.tidy(1)


def test_a_part_whose_version_is_published_at_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer may be faster than the part learns that it was handed in."""
    w = place.create(classes=CLASSES)
    if "to" in place.options:
        real = os.link

        def link(one: Any, other: Any) -> None:
            real(one, other)
            if str(other).endswith(".part"):
                w.commit()

        monkeypatch.setattr(os, "link", link)
    else:
        put = penstock.Client.put

        def committing(self: penstock.Client, name: str, *args: Any, **options: Any) -> Any:
            info = put(self, name, *args, **options)
            if name.endswith(".part"):
                w.commit()
            return info

        monkeypatch.setattr(penstock.Client, "put", committing)
    _fill(w.part(0), range(10))
    holds(place.open(), world(*range(10)))
    place.tidy(1)


def test_a_part_of_a_version_that_was_given_up(place: Place) -> None:
    w = place.create(classes=CLASSES)
    part, begun = w.part(0), w.part(1)
    fill(begun, range(2))
    w.abandon()
    for of in (part, begun):
        with pytest.raises(penstock.Stale, match="given up"):
            _fill(of, range(2, 5))
    assert place.files() == []


def test_leaving_the_block_gives_up(place: Place) -> None:
    with pytest.raises(penstock.Invalid, match=r"not closed: 0\. The version is given up"), place.create() as w:
        w.part(0)
    with pytest.raises(penstock.Invalid, match="given up"):
        w.part(0)
    with place.create() as w:
        w.part(0)
        with pytest.raises(penstock.Invalid, match=r"not closed: 0\. Close them, fill them again"):
            w.commit()
        w.part(0).close()
        w.add("a", {"bin": b"1"})


def test_a_shard_that_cannot_be_written(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with place.create(shard_size=6000) as w:
        w.add("a", {"bin": b"1" * 3000})
        with monkeypatch.context() as m, pytest.raises(OSError, match="no space left"):
            m.setattr(type(w._draft), "shard", full)
            w.add("b", {"bin": b"2" * 3000})
        w.add("c", {"bin": b"3" * 10})  # into the same shard
    ds = place.open()
    assert [sample["__key__"] for sample in ds] == ["a", "c"] and ds.manifest.shards == 1
    name = ds.manifest.shard(0).name
    if "to" in place.options:
        data = (Path(place.options["to"]) / name).read_bytes()
    else:
        data = place.client.get(f"{place.options['bucket']}/{place.name}/{name}")
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert tar.getnames() == ["a.bin", "c.bin"]


# The lock on a directory.

ORPHANS = """
import multiprocessing, os, signal, sys, time
from concurrent.futures import ProcessPoolExecutor
import penstock
def fill(part):
    with part: part.add(str(part.number), {"bin": b"x"})
    return os.getpid()
w = penstock.create("pets", to=sys.argv[1])
pool = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork"))
print(*set(pool.map(fill, [w.part(i) for i in range(2)])), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_children_do_not_hold_the_lock(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", ORPHANS, tmp_path / "pets"], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    children = [int(number) for number in writer.stdout.readline().split()]
    try:
        assert writer.wait(60) == -9 and children
        with penstock.create("pets", to=tmp_path / "pets") as w:
            w.add("a", {"bin": b"1"})
            child = os.fork()
            if child == 0:  # what it has inherited, and lets go, is not its own
                del w
                os._exit(0)
            os.waitpid(child, 0)
            with pytest.raises(penstock.Busy):
                penstock.create("pets", to=tmp_path / "pets")
    finally:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        writer.stdout.close()


def test_a_writer_that_nobody_has_any_more(tmp_path: Path) -> None:
    w = penstock.create("pets", to=tmp_path / "pets")
    w.add("a", {"bin": b"1"})
    with pytest.raises(penstock.Busy, match="another writer"):
        penstock.create("pets", to=tmp_path / "pets")
    del w
    gc.collect()
    with penstock.create("pets", to=tmp_path / "pets") as w:
        w.add("b", {"bin": b"2"})
    assert penstock.open(tmp_path / "pets").key(0) == "b"


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")
    for number in (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK):

        def flock(fd: int, how: int, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as m, pytest.raises(penstock.Unavailable, match=os.strerror(number)):
            m.setattr(fcntl, "flock", flock)
            penstock.create("pets", to=tmp_path / "pets")
    penstock.create("pets", to=tmp_path / "pets").abandon()


def test_two_writers_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")

    class Msvcrt:
        LK_NBLCK = 2

        @staticmethod
        def locking(fd: int, how: int, size: int) -> None:
            assert (how, size) == (2, 1)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise PermissionError(errno.EACCES, "Permission denied") from None

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", Msvcrt)
    for version in (1, 2):
        with penstock.create("pets", to=tmp_path / "pets") as w:
            w.add("a", {"bin": b"1"})
            with pytest.raises(penstock.Busy):
                penstock.create("pets", to=tmp_path / "pets")
        assert penstock.open(tmp_path / "pets").version == version


def test_a_part_that_was_given_up_is_not_an_empty_one(tmp_path: Path) -> None:
    with penstock.create("x", to=tmp_path / "d") as w:
        part = w.part(0)
        part.add("a", {"bin": b"x"})
        part.abandon()
        with pytest.raises(penstock.Invalid, match="fill it again"):
            part.close()
        part.add("a", {"bin": b"x"})
        part.close()
        w.part(1).close()  # nothing was ever in it
    assert len(penstock.open(tmp_path / "d")) == 1
