"""WebDataset itself reads our shards, as they are: by path, and by URL from a node."""

from __future__ import annotations

import os
import subprocess
import warnings
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Node
from datasets import WORDS, key, sample

import penstock

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what others' packages say when they are imported
    webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")

COUNT = 300


def read(urls: list[str]) -> dict[str, dict[str, Any]]:
    """Every sample of the shards, by key, in bytes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(webdataset.WebDataset(urls, shardshuffle=False))
    assert len({s["__key__"] for s in found}) == len(found) == COUNT
    return {s["__key__"]: s for s in found}


def check(found: dict[str, dict[str, Any]]) -> None:
    for i in range(COUNT):
        got, wanted = found[key(i)], sample(i)
        assert got["bin"] == wanted["bin"]
        assert got.get("json") == wanted.get("json")
        assert int(got["cls"]) == WORDS.index(wanted["cls"])


def shards(ds: penstock.Dataset) -> list[str]:
    return [ds.manifest.shard(number).name for number in range(ds.manifest.shards)]


def fill(w: Any) -> None:
    for i in range(COUNT):
        w.add(key(i), sample(i))


def test_by_path(tmp_path: Path) -> None:
    with penstock.create("pets", to=tmp_path / "pets", shard_size=64 << 10) as w:
        fill(w)
    names = shards(penstock.open(tmp_path / "pets"))
    assert len(names) > 3
    check(read([str(tmp_path / "pets" / name) for name in names]))


def test_by_url(node: Node, bucket: str) -> None:
    client = penstock.Client(node.endpoint)
    name = f"web-{bucket}"
    with penstock.create(name, bucket=bucket, client=client, shard_size=64 << 10) as w:
        fill(w)
    names = shards(penstock.open(name, client=client))
    check(read([f"{node.endpoint}/v1/objects/{bucket}/{name}/{shard}" for shard in names]))


def test_shards_of_the_command(tmp_path: Path) -> None:
    for i in range(COUNT):
        file = tmp_path / "files" / f"{key(i)}.bin"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(sample(i)["bin"])
        if "json" in sample(i):
            file.with_suffix(".json").write_bytes(sample(i)["json"])
    binary = os.environ.get("PENSTOCK_BINARY") or ROOT / "bin" / "penstock"
    command = [binary, "dataset", "create", "pets", "--from", tmp_path / "files", "--to", tmp_path / "pets"]
    subprocess.run([*command, "--class-from-folder", "--shard-size", "64KiB"], check=True, capture_output=True)
    check(read([str(tmp_path / "pets" / name) for name in shards(penstock.open(tmp_path / "pets"))]))
