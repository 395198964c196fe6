"""What a job must survive: versions that come and go, full disks, clocks that jump, thousands of datasets."""

from __future__ import annotations

import gc
import os
import pickle
import random
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import datasets
import pytest
from conftest import ROOT, Node
from datasets import same, write

import penstock
from penstock.loader import Loader
from penstock.manifest import _mapped_now
from penstock.place import _open_now


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def few() -> Iterator[None]:
    """The process may have 256 files open."""
    resource = pytest.importorskip("resource", reason="there is no limit to set")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")
def test_ten_thousand_in_directories(tmp_path: Path, few: None) -> None:
    home = write(tmp_path, 12)
    before, mapped = descriptors(), len(_mapped_now)
    all = [penstock.open(home) for _ in range(10_000)]
    assert descriptors() - before < 70
    for ds in all:
        assert ds[7]["n"] == 7
    assert descriptors() - before < 140 and len(_open_now) <= 64
    assert all[0].version == 1 and same(all[0][3], 3) and same(all[-1][3], 3)
    del all, ds
    assert descriptors() == before and len(_mapped_now) == mapped


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")
def test_manifests_that_are_mapped(tmp_path: Path, few: None) -> None:
    with penstock.create("x", to=tmp_path) as w:
        for i in range(3000):
            w.add(f"{i:040}", {"n": i})
    assert (tmp_path / "manifest-000001").stat().st_size > 64 << 10
    before, mapped = descriptors(), len(_mapped_now)
    all = [penstock.open(tmp_path) for _ in range(300)]
    assert len(_mapped_now) <= 64 and descriptors() - before <= 64
    assert [ds[2999]["n"] for ds in all] == [2999] * 300
    all[0].close()
    assert all[0][1]["n"] == 1
    del all
    assert descriptors() == before and len(_mapped_now) == mapped


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")
def test_thousands_on_a_node(
    node: Node, client: penstock.Client, bucket: str, tmp_path: Path, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PENSTOCK_ENDPOINT", node.endpoint)
    with penstock.create("many", bucket=bucket, client=client) as w:
        for i in range(12):
            w.add(datasets.key(i), datasets.sample(i))
    before = descriptors()
    all = [penstock.open("many") for _ in range(2000)]
    for ds in all:
        assert ds[7]["n"] == 7
    assert descriptors() - before < 10
    assert same(all[3][3], 3) and same(pickle.loads(pickle.dumps(all[4]))[5], 5)


# A version that is removed under a job.


def removed(client: penstock.Client, name: str) -> None:
    """Remove a dataset as the command does."""
    command = [os.environ.get("PENSTOCK_BINARY") or str(ROOT / "bin" / "penstock"), "dataset", "rm", name, "--force"]
    subprocess.run(
        command, check=True, capture_output=True, timeout=60, env={**os.environ, "PENSTOCK_ENDPOINT": client.endpoint}
    )


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("on_error", ["raise", "substitute"])
@pytest.mark.parametrize("place", ["node", "directory"])
def test_removed_under_a_job(
    client: penstock.Client, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, on_error: str, place: str
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    name = f"gone-{workers}-{on_error}"
    where = {"bucket": bucket, "client": client} if place == "node" else {"to": tmp_path / name}
    with penstock.create(name, shard_size=4096, **where) as w:  # type: ignore[arg-type]
        for i in range(300):
            w.add(datasets.key(i), datasets.sample(i))
    ds = penstock.open(name if place == "node" else tmp_path / name, client=client)
    with Loader(ds, batch_size=10, num_workers=workers, on_error=on_error, fields=["bin", "n"]) as dl:
        batches = iter(dl)
        next(batches)
        removed(client, name if place == "node" else str(tmp_path / name))
        began = time.monotonic()
        with pytest.raises(penstock.SampleError, match=f"was {name}@1 removed") as caught:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for _ in batches:
                    pass
        assert time.monotonic() - began < 20
    assert (caught.value.kind, caught.value.dataset, caught.value.version) == ("NotFound", name, 1)
    with pytest.raises(penstock.NotFound):
        penstock.open(name if place == "node" else tmp_path / name, client=client)
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    other = pickle.loads(pickle.dumps(ds))
    with pytest.raises(penstock.NotFound, match="gone|does not exist"):
        len(other)


def test_a_version_comes_under_a_job(tmp_path: Path) -> None:
    home = write(tmp_path, 40)
    ds = penstock.open(home)
    for _ in Loader(ds, batch_size=10, fields=["n"]):
        with penstock.create("pets", to=home, base=True) as w:
            w.add(f"new-{ds.version}-{time.monotonic_ns()}", {"n": 1})
    assert ds.version == 1 and len(ds) == 40 and same(pickle.loads(pickle.dumps(ds))[5], 5)
    assert penstock.open(home).version == 5


# A disk that is full.


def test_a_full_cache(client: penstock.Client, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted = tmp_path / "small"
    mounted.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", mounted], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted: {done.stderr.strip()}")
    try:
        monkeypatch.setenv("XDG_CACHE_HOME", str(mounted))
        with penstock.create("full-disk", bucket=bucket, client=client) as w:
            for i in range(3000):
                w.add(f"{i:040}", {"n": i})
        with pytest.warns(RuntimeWarning, match="cannot be kept in .*No space left on device"):
            ds = penstock.open("full-disk", client=client)
        assert ds[2999]["n"] == 2999
        assert not [path for path in mounted.rglob("*") if path.is_file()]  # and nothing is in others' way
        with pytest.warns(RuntimeWarning, match="cannot be kept"):
            assert pickle.loads(pickle.dumps(ds))[7]["n"] == 7
        # A dataset on a full disk is not there, and nothing is left of it.
        with pytest.raises(OSError, match="No space left"), penstock.create("x", to=mounted / "x", shard_size=9000) as w:
            for i in range(100):
                w.add(f"{i}", {"bin": bytes(4000)})
        assert os.listdir(mounted / "x") == []
    finally:
        subprocess.run(["umount", mounted], check=True)


# A clock that jumps.


def test_a_clock_that_jumps(
    client: penstock.Client, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    dice, real = random.Random(1), time.time
    monkeypatch.setattr(time, "time", lambda: real() + dice.choice((-1, 1)) * dice.random() * 1e9)
    with penstock.create("clock", bucket=bucket, client=client, shard_size=4096) as w:
        for i in range(100):
            w.add(datasets.key(i), datasets.sample(i))
    ds = penstock.open("clock", client=client)
    began = time.monotonic()
    with Loader(ds, batch_size=10, num_workers=2, workers="thread", fields=["bin", "n"]) as dl:
        assert sum(len(batch["n"]) for batch in dl) == 100
        stalls = dl.stalls()
    assert 0 <= stalls["waited"] <= time.monotonic() - began
    for _ in range(20):  # whatever the cache takes for old
        assert same(penstock.open("clock", client=client)[5], 5)
    assert client.get(f"{bucket}/clock/manifest-000001")


def test_pages_of_datasets(node: Node, client: penstock.Client, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.listing._PAGE", 2)
    for name in ("page-c", "page-a", "page-b", "page-d", "page-e"):
        with penstock.create(name, bucket=bucket, client=client) as w:
            w.add("a", {"n": 1})
    with penstock.create("page-b", bucket=bucket, client=client) as w:
        w.add("a", {"n": 2})
    found = [info for info in client.datasets() if info.name.startswith("page-")]
    assert [info.name for info in found] == ["page-a", "page-b", "page-c", "page-d", "page-e"]
    assert (found[1].bucket, found[1].newest, found[1].versions) == (bucket, 2, (1, 2))
