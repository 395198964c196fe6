"""The fsspec file system: fsspec's own suite against the real node, and what it does not cover."""

from __future__ import annotations

import io
import itertools
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Node

fsspec = pytest.importorskip("fsspec")

import fsspec.tests.abstract as abstract  # noqa: E402

import penstock  # noqa: E402
from penstock.fsspec import PenstockFileSystem  # noqa: E402

_numbers = itertools.count()


@pytest.fixture
def fs(node: Node) -> Iterator[PenstockFileSystem]:
    fs = fsspec.filesystem("penstock", endpoint=node.endpoint, skip_instance_cache=True)
    yield fs
    fs.client.close()


@pytest.fixture
def root(fs: PenstockFileSystem) -> str:
    name = f"files-{next(_numbers)}"
    fs.mkdir(name)
    return name


class PenstockFixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, fs: PenstockFileSystem) -> PenstockFileSystem:
        return fs

    @pytest.fixture
    def fs_path(self, root: str) -> str:
        return root

    @pytest.fixture
    def fs_join(self) -> Any:
        return lambda *parts: "/".join(parts)

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return False


class TestCopy(abstract.AbstractCopyTests, PenstockFixtures):
    pass


class TestGet(abstract.AbstractGetTests, PenstockFixtures):
    pass


class TestPut(abstract.AbstractPutTests, PenstockFixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, PenstockFixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, PenstockFixtures):
    pass


def test_open_by_url(fs: PenstockFileSystem, root: str, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_ENDPOINT", node.endpoint)
    url = f"penstock://{root}/dir/ü key.txt"
    with fsspec.open(url, "w", encoding="utf-8") as file:
        file.write("first\nsecond\n")
    with fsspec.open(url, "rt", encoding="utf-8") as file:
        assert list(file) == ["first\n", "second\n"]
    with fsspec.open(url, "rb") as file:
        file.seek(-7, io.SEEK_END)
        assert file.read() == b"second\n"
    assert fs.cat(url) == b"first\nsecond\n"


@pytest.fixture
def tree(fs: PenstockFileSystem, root: str) -> dict[str, bytes]:
    files = {f"{root}/{name}": name.encode() for name in ("a", "a/b", "d/1", "d/2", "d/e/3", "x y/ü", "top.txt")}
    fs.pipe(files)
    return files


def test_listing(fs: PenstockFileSystem, root: str, tree: dict[str, bytes]) -> None:
    assert fs.ls(root, detail=False) == [f"{root}/{name}" for name in ("a", "a", "d", "top.txt", "x y")]
    assert fs.ls(f"penstock://{root}/d/", detail=False) == [f"{root}/d/1", f"{root}/d/2", f"{root}/d/e"]
    assert fs.ls(f"{root}/top.txt", detail=False) == [f"{root}/top.txt"]
    assert fs.find(root) == sorted(tree)
    assert fs.find(f"{root}/d", withdirs=True) == [f"{root}/{name}" for name in ("d", "d/1", "d/2", "d/e", "d/e/3")]
    assert fs.find(f"{root}/d", maxdepth=1) == [f"{root}/d/1", f"{root}/d/2"]
    assert fs.find(f"{root}/top.txt") == [f"{root}/top.txt"]
    assert fs.glob(f"{root}/d/*") == [f"{root}/d/1", f"{root}/d/2", f"{root}/d/e"]
    assert fs.glob(f"{root}/**/3") == [f"{root}/d/e/3"]
    walked = {path: (sorted(dirs), sorted(files)) for path, dirs, files in fs.walk(f"{root}/d")}
    assert walked == {f"{root}/d": (["e"], ["1", "2"]), f"{root}/d/e": ([], ["3"])}
    assert fs.du(f"{root}/d") == sum(len(data) for name, data in tree.items() if name.startswith(f"{root}/d/"))
    assert root in fs.ls("", detail=False) and fs.info(root)["type"] == fs.info("")["type"] == "directory"
    info = fs.info(f"{root}/top.txt")
    assert (info["type"], info["size"]) == ("file", 7) and fs.modified(f"{root}/top.txt") == info["modified"]
    assert (
        fs.isdir(f"{root}/d")
        and not fs.isfile(f"{root}/d")
        and not fs.exists(f"{root}/none")
        and not fs.exists("none-such/x")
    )
    for missing in (f"{root}/none", "none-such"):
        with pytest.raises(FileNotFoundError):
            fs.ls(missing)
        with pytest.raises(FileNotFoundError):
            fs.info(missing)


def test_many_at_once_are_one_request(
    fs: PenstockFileSystem, root: str, tree: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_by_one(*_: Any, **__: Any) -> bytes:
        raise AssertionError("one by one")

    monkeypatch.setattr(fs.client, "get", one_by_one)
    assert fs.cat(sorted(tree)) == tree
    assert fs.cat(root, recursive=True) == tree
    assert fs.cat([*tree, f"{root}/none"], on_error="omit") == tree
    assert isinstance(fs.cat([*tree, f"{root}/none"], on_error="return")[f"{root}/none"], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat([*tree, f"{root}/none"])
    assert fs.cat_ranges([f"{root}/top.txt"] * 2, [0, 4], [3, 7]) == [b"top", b"txt"]


def test_ranges_are_slices(fs: PenstockFileSystem, root: str) -> None:
    path, data = f"{root}/k", bytes(range(20))
    fs.pipe_file(path, data)
    fs.pipe_file(f"{root}/empty", b"")
    bounds = [None, 0, 3, 19, 20, 50, -3, -20, -50]
    pairs = list(itertools.product(bounds, bounds))
    for start, end in pairs:
        assert fs.cat_file(path, start, end) == data[start:end], (start, end)
        assert fs.cat_file(f"{root}/empty", start, end) == b""
    ranges = fs.cat_ranges([path] * len(pairs), [start for start, _ in pairs], [end for _, end in pairs])
    assert ranges == [data[start:end] for start, end in pairs]
    mixed = fs.cat_ranges([path, f"{root}/none", "x/too-short", "nokey"], 0, 2)
    assert mixed[0] == data[:2] and [type(error) for error in mixed[1:]] == [
        penstock.NotFound,
        penstock.Invalid,
        penstock.Invalid,
    ]
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges([f"{root}/none"], 0, 2, on_error="raise")


def test_writing(fs: PenstockFileSystem, root: str) -> None:
    path = f"{root}/k"
    large = bytes(range(256)) * 50_000  # more than one block
    with fs.open(path, "wb") as file:
        file.write(large[:100])
        file.write(large[100:])
        assert not fs.exists(path)  # whole or not at all
    assert fs.cat(path) == large
    with fs.open(path, "ab") as file:
        file.write(b"more")
    assert fs.cat(path) == large + b"more"
    with fs.open(f"{root}/new", "ab") as file:
        file.write(b"first")
    with fs.open(f"{root}/typed", "wb", content_type="text/x", metadata={"a": "b"}) as file:
        file.write(b"x")
    assert fs.client.stat(f"{root}/typed").metadata == {"a": "b"}
    with pytest.raises(RuntimeError), fs.open(path, "wb") as file:
        file.write(b"half of it")
        raise RuntimeError
    assert fs.size(path) == len(large) + 4
    with pytest.raises(FileExistsError):
        fs.pipe_file(path, b"", mode="create")
    with fs.open(f"{root}/race", "xb") as file:
        fs.pipe_file(f"{root}/race", b"somebody else")
        with pytest.raises(FileExistsError):
            file.close()


def test_transactions(fs: PenstockFileSystem, root: str) -> None:
    with fs.transaction:
        with fs.open(f"{root}/a", "wb") as file:
            file.write(b"A")
        assert not fs.exists(f"{root}/a")
    assert fs.cat(f"{root}/a") == b"A"
    with pytest.raises(RuntimeError), fs.transaction:
        with fs.open(f"{root}/b", "wb") as file:
            file.write(b"B")
        raise RuntimeError
    assert not fs.exists(f"{root}/b")


def test_a_file_reads_one_state_of_an_object(fs: PenstockFileSystem, root: str) -> None:
    fs.pipe_file(f"{root}/k", b"1" * 100)
    with fs.open(f"{root}/k", "rb", block_size=10, cache_type="none") as file:
        assert file.read(10) == b"1" * 10
        fs.pipe_file(f"{root}/k", b"2" * 100)
        with pytest.raises(penstock.Stale):
            file.read(10)


def test_removing_and_making(fs: PenstockFileSystem, root: str, tree: dict[str, bytes]) -> None:
    fs.rm(f"{root}/d", recursive=True)
    assert fs.find(root) == sorted(name for name in tree if not name.startswith(f"{root}/d/"))
    with pytest.raises(FileNotFoundError):
        fs.rm(f"{root}/d", recursive=True)
    with pytest.raises(FileNotFoundError):
        fs.rm(f"{root}/none")
    fs.mv(f"{root}/top.txt", f"{root}/moved")
    assert fs.cat(f"{root}/moved") == b"top.txt" and not fs.exists(f"{root}/top.txt")
    with pytest.raises(OSError):
        fs.rmdir(root)
    fs.rm(root, recursive=True)
    assert not fs.exists(root)
    fs.makedirs(f"{root}/a/b")
    assert fs.ls(root) == [] and fs.find(root) == []
    fs.makedirs(root, exist_ok=True)
    with pytest.raises(FileExistsError):
        fs.makedirs(root)
    fs.rmdir(root)
    with pytest.raises(FileNotFoundError):
        fs.rmdir(f"{root}/a")


def test_pickles(fs: PenstockFileSystem, root: str) -> None:
    fs.pipe_file(f"{root}/k", b"0123456789")
    again = pickle.loads(pickle.dumps(fs))
    assert again.cat(f"{root}/k") == b"0123456789"
    with fs.open(f"{root}/k", "rb") as file:
        file.seek(4)
        with pickle.loads(pickle.dumps(file)) as same:
            assert same.read() == b"456789"
    again.client.close()


def test_local_copies(fs: PenstockFileSystem, root: str, tmp_path: Path) -> None:
    data = bytes(3 << 20)
    (tmp_path / "file").write_bytes(data)
    seen = fsspec.callbacks.Callback()
    fs.put_file(str(tmp_path / "file"), f"{root}/k", callback=seen)
    assert seen.size == seen.value == len(data)
    fs.get_file(f"{root}/k", str(tmp_path / "sub" / "back"), callback=(seen := fsspec.callbacks.Callback()))
    assert (tmp_path / "sub" / "back").read_bytes() == data and seen.size == seen.value == len(data)
    with pytest.raises(FileExistsError):
        fs.put_file(str(tmp_path / "file"), f"{root}/k", mode="create")
    with pytest.raises(FileNotFoundError):
        fs.get_file(f"{root}/none", str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()
