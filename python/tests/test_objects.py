"""Objects, listings and buckets of a real node."""

from __future__ import annotations

import array
import gc
import io
import os
import pickle
import random
import tarfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from conftest import Node

import penstock
from penstock import Client, Ref

AWKWARD = [
    "a",
    "a/b",
    "a//b",
    "/",
    "//",
    "/leading",
    "trailing/",
    ".",
    "..",
    "../../etc/passwd",
    "a/./b",
    "a/../b",
    "space and\ttab",
    "new\nline\r\n",
    "nul\0byte",
    "percent%2Fsign%zz",
    "question?mark&amp=1#hash",
    "quote\"'back\\slash`",
    "plus+semi;colon:comma,",
    "naïve/漢字/😀",
    "e\u0301 and \u00e9",
    "\x7f\x01\u200b\u2028\ufeff",
    "k" * 1024,
    "é" * 512,
]


@pytest.mark.parametrize("key", AWKWARD, ids=lambda key: ascii(key)[:24])
def test_awkward_keys(client: Client, bucket: str, key: str) -> None:
    name, data = f"{bucket}/{key}", key.encode() * 3
    info = client.put(name, data)
    assert {info: 1}[info] == 1  # it can be a key
    assert (info.bucket, info.key, info.name, info.size) == (bucket, key, name, len(data))
    assert client.get(name) == data
    assert client.stat(name) == info
    assert client.batch(bucket, [key, Ref(key, length=2)]) == [data, data[:2]]
    assert [entry.key for entry in client.list(bucket)] == [key]
    assert [entry.key for entry in client.list(bucket, prefix=key)] == [key]
    assert list(client.list(bucket, after=key)) == []
    assert client.copy(name, f"{bucket}/copy").size == len(data)
    client.delete(name)
    with pytest.raises(penstock.NotFound):
        client.get(name)
    client.put_batch(bucket, {key: data})
    assert client.get(name) == data


@pytest.mark.parametrize(
    "name",
    [
        "",
        "nokey",
        "bucket/",
        "Bucket/k",
        "b/k",
        "bu..cket/k",
        "-bucket/k",
        "1.2.3.4/k",
        "bucket/" + "k" * 1025,
        "bucket/\udc80",
        "bücket/k",
    ],
)
def test_names_that_make_no_sense(client: Client, name: str) -> None:
    for act in (client.get, client.stat, client.delete, client.open, lambda name: client.put(name, b"")):
        with pytest.raises(penstock.Invalid):
            act(name)


def test_what_is_stored_comes_back(client: Client, bucket: str) -> None:
    name = f"{bucket}/k"
    for size in (0, 1, 4095, 65536, (3 << 20) + 1):
        data = random.randbytes(size)
        info = client.put(name, data, content_type="text/plain; charset=utf-8", metadata={"a": "ü", "b-c": "x y"})
        assert client.get(name) == data
        assert client.stat(name) == info
        assert info.content_type == "text/plain; charset=utf-8" and info.metadata == {"a": "ü", "b-c": "x y"}
        assert abs((datetime.now(timezone.utc) - info.modified).total_seconds()) < 60
        with client.open(name) as reader:
            assert reader.info == info and reader.readall() == data


def test_everything_bytes_like(client: Client, bucket: str) -> None:
    for data in (
        b"bytes",
        bytearray(b"bytes"),
        memoryview(b"bytes"),
        memoryview(b"xbytesx")[1:-1],
        array.array("B", b"bytes"),
    ):
        client.put(f"{bucket}/k", data)
        assert client.get(f"{bucket}/k") == b"bytes"
        client.put_batch(bucket, {"k2": data})
        assert client.get(f"{bucket}/k2") == b"bytes"
    for wrong in ("text", 5, None, ["b"]):
        with pytest.raises(penstock.Invalid):
            client.put(f"{bucket}/k", wrong)
        with pytest.raises(penstock.Invalid):
            client.put_batch(bucket, {"k": wrong})


def test_arrays(client: Client, bucket: str) -> None:
    numpy = pytest.importorskip("numpy")
    table = numpy.arange(12, dtype="<u2").reshape(3, 4)
    for data in (table, table[:0]):
        client.put(f"{bucket}/k", data)
        client.put_batch(bucket, {"k2": data})
        assert client.batch(bucket, ["k", "k2"]) == [data.tobytes()] * 2
    with pytest.raises(penstock.Invalid, match="contiguous"):
        client.put(f"{bucket}/k", table.T)


def test_files(client: Client, bucket: str, tmp_path: Path) -> None:
    data = random.randbytes((2 << 20) + 5)
    (tmp_path / "file").write_bytes(data)
    with open(tmp_path / "file", "rb") as file:
        file.seek(5)
        assert client.put(f"{bucket}/file", file).size == len(data) - 5
    assert client.get(f"{bucket}/file") == data[5:]
    with open(tmp_path / "file") as text, pytest.raises((penstock.Invalid, UnicodeDecodeError)):
        client.put(f"{bucket}/text", text)
    assert len(list(client.list(bucket))) == 1


class Stream(io.RawIOBase):
    """What cannot be sought: a pipe, a socket."""

    def __init__(self, data: bytes, *, then: Exception | None = None) -> None:
        self.rest, self.then = io.BytesIO(data), then

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n = self.rest.readinto(buffer)
        if n == 0 and self.then is not None:
            raise self.then
        return n


def test_streams(client: Client, bucket: str) -> None:
    for size in (0, 10, (2 << 20) + 7):
        data = random.randbytes(size)
        assert client.put(f"{bucket}/stream", Stream(data)).size == size
        assert client.get(f"{bucket}/stream") == data


def test_what_fails_to_be_read_is_not_stored(client: Client, bucket: str) -> None:
    failure = OSError(5, "the disk of the one who sends")
    with pytest.raises(OSError) as caught:
        client.put(f"{bucket}/k", Stream(b"x" * 300_000, then=failure))
    assert caught.value is failure
    with pytest.raises(penstock.NotFound):
        client.get(f"{bucket}/k")


def test_ranges(client: Client, bucket: str) -> None:
    name, data = f"{bucket}/k", bytes(range(200))
    client.put(name, data)
    for offset, length in [
        (0, None),
        (10, None),
        (-10, None),
        (-1000, None),
        (0, 5),
        (10, 5),
        (-10, 5),
        (190, 1000),
        (0, 1 << 62),
        (199, 1),
    ]:
        end = None if length is None else (offset if offset >= 0 else max(0, 200 + offset)) + length
        want = data[offset:end] if offset >= 0 else data[max(0, 200 + offset) : end]
        assert client.get(name, offset=offset, length=length) == want
        assert client.batch(bucket, [Ref("k", offset=offset, length=length)]) == [want]
        with client.open(name, offset=offset, length=length) as reader:
            assert reader.readall() == want and reader.length == len(want)
    for offset, length in [(200, None), (500, 1), (0, 0), (0, -1)]:
        with pytest.raises(penstock.Invalid):
            client.get(name, offset=offset, length=length)


def test_reading_in_pieces(client: Client, bucket: str) -> None:
    data = random.randbytes(1 << 20)
    client.put(f"{bucket}/k", data)
    got = b""
    with client.open(f"{bucket}/k") as reader:
        while piece := reader.read(70_001):
            got += piece
    assert got == data
    with pytest.raises(ValueError, match="closed"):
        reader.read(1)
    with client.open(f"{bucket}/k") as reader:
        assert reader.read(10) == data[:10]  # the rest is left: the client goes on
    assert client.get(f"{bucket}/k") == data


def test_conditions(client: Client, bucket: str) -> None:
    name = f"{bucket}/k"
    with pytest.raises(penstock.NotFound):
        client.put(name, b"x", if_match="100000001-00000000")
    first = client.put(name, b"1", if_none_match="*")
    with pytest.raises(penstock.Exists):
        client.put(name, b"2", if_none_match="*")
    with pytest.raises(penstock.Stale):
        client.put(name, b"2", if_match="other")
    second = client.put(name, b"2", if_match=first.etag)
    for act in (
        lambda: client.get(name, if_match=first.etag),
        lambda: client.get(name, if_none_match=second.etag),
        lambda: client.delete(name, if_match=first.etag),
    ):
        with pytest.raises(penstock.Stale):
            act()
    assert client.get(name, if_match=second.etag) == client.get(name, if_none_match=first.etag) == b"2"
    with pytest.raises(penstock.Exists):
        client.copy(name, name, if_none_match="*")
    client.delete(name, if_match=second.etag)
    for bad in ('"quoted"', "a,b", "", "line\nbreak"):
        with pytest.raises(penstock.Invalid):
            client.put(name, b"", if_match=bad)


def test_copy_keeps_what_belongs_to_it(client: Client, bucket: str) -> None:
    client.put(f"{bucket}/ü %", b"data", content_type="image/x", metadata={"a": "b"})
    copied = client.copy(f"{bucket}/ü %", f"{bucket}/to")
    assert (copied.key, copied.content_type, copied.metadata) == ("to", "image/x", {"a": "b"})
    assert client.get(f"{bucket}/to") == b"data"
    with pytest.raises(penstock.NotFound):
        client.copy(f"{bucket}/none", f"{bucket}/to")


def test_headers_that_cannot_be_sent(client: Client, bucket: str) -> None:
    for options in (
        {"content_type": "a\r\nb"},
        {"content_type": " a"},
        {"metadata": {"A": "x"}},
        {"metadata": {"a": "x\r\nEvil: y"}},
        {"metadata": {"": "x"}},
        {"metadata": {"a": "\udc80"}},
    ):
        with pytest.raises(penstock.Invalid):
            client.put(f"{bucket}/k", b"", **options)
    assert list(client.list(bucket)) == []


def test_members(client: Client, bucket: str) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, data in {"0.txt": b"zero", "sub/ü &=?.txt": b"one", "empty": b""}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    client.put(f"{bucket}/s.tar", archive.getvalue())
    assert client.get(f"{bucket}/s.tar", member="0.txt") == b"zero"
    assert client.get(f"{bucket}/s.tar", member="sub/ü &=?.txt", offset=1) == b"ne"
    assert client.get(f"{bucket}/s.tar", member="empty") == b""
    assert client.stat(f"{bucket}/s.tar", member="0.txt").size == 4
    assert client.batch(bucket, [Ref("s.tar", "0.txt"), Ref("s.tar", "sub/ü &=?.txt", offset=-2)]) == [b"zero", b"ne"]
    with pytest.raises(penstock.NotFound):
        client.get(f"{bucket}/s.tar", member="none")


def test_listing(client: Client, bucket: str) -> None:
    keys = sorted([f"d{i % 3}/{i:04}" for i in range(2500)] + ["top", "ü", "😀", "￿"], key=str.encode)
    client.put_batch(bucket, {key: b"x" for key in keys})
    assert [entry.key for entry in client.list(bucket)] == keys
    assert [entry.key for entry in client.list(bucket, prefix="d1/")] == [key for key in keys if key.startswith("d1/")]
    assert [entry.key for entry in client.list(bucket, after="d1/0004", limit=3)] == ["d1/0007", "d1/0010", "d1/0013"]
    assert [entry.key for entry in client.list(bucket, limit=1500)] == keys[:1500]
    assert list(client.list(bucket, limit=0)) == []
    folded = list(client.list(bucket, delimiter="/"))
    assert [entry.key for entry in folded] == ["d0/", "d1/", "d2/", "top", "ü", "￿", "😀"]
    assert [type(entry) for entry in folded[2:4]] == [penstock.Prefix, penstock.Info]
    with pytest.raises(penstock.Invalid):
        client.list(bucket, limit=-1)
    with pytest.raises(penstock.NotFound):
        next(client.list("no-such-bucket"))


def test_buckets(client: Client) -> None:
    made = client.create_bucket("made-here", quota=1 << 20)
    assert made.properties["quota"] == 1 << 20
    with pytest.raises(penstock.Exists):
        client.create_bucket("made-here")
    assert "made-here" in [bucket.name for bucket in client.buckets()]
    assert client.update_bucket("made-here", quota=None).properties["quota"] == 0
    client.put("made-here/k", b"12345")
    assert (client.bucket("made-here").objects, client.bucket("made-here").bytes) == (1, 5)
    with pytest.raises(penstock.Exists):
        client.delete_bucket("made-here")
    client.delete("made-here/k")
    client.delete_bucket("made-here")
    with pytest.raises(penstock.NotFound):
        client.bucket("made-here")
    with pytest.raises(penstock.Invalid):
        client.create_bucket("made-here", colour="blue")


def test_where_from(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Client().endpoint == "http://127.0.0.1:7400"
    monkeypatch.setenv("PENSTOCK_ENDPOINT", node.endpoint)
    monkeypatch.setenv("PENSTOCK_TOKEN", "wrong")
    assert Client().endpoint == node.endpoint
    with pytest.raises(penstock.Denied, match="PENSTOCK_TOKEN"):
        Client().buckets()
    assert Client(token="").buckets() is not None
    for bad in (
        "ftp://x",
        "http://",
        "http://u:p@h",
        "http://h?q",
        "http://h:port",
        "http://h\r\nX: y",
        "http://h:99999",
    ):
        with pytest.raises(penstock.Invalid):
            Client(bad)
    assert Client("localhost:7400/").endpoint == "http://localhost:7400"
    for options in ({"timeout": 0}, {"timeout": float("nan")}, {"attempts": 0}, {"token": "a\nb"}):
        with pytest.raises(penstock.Invalid):
            Client(**options)


def test_key_pairs(tmp_path: Path) -> None:
    keys = {"access_key": "someone-known", "secret_key": "something-secret"}
    node = Node(tmp_path, PENSTOCK_ACCESS_KEY=keys["access_key"], PENSTOCK_SECRET_KEY=keys["secret_key"]).start()
    try:
        client = Client(node.endpoint, **keys)
        client.create_bucket("bucket")
        assert [b.name for b in pickle.loads(pickle.dumps(client)).buckets()] == ["bucket"]
        assert keys["secret_key"] not in repr(client)
        with pytest.raises(penstock.Denied, match="key pair"):
            Client(node.endpoint, access_key=keys["access_key"], secret_key="wrong").buckets()
    finally:
        node.stop()
    for options in ({"access_key": "a"}, {"secret_key": "s"}, {**keys, "token": "t"}):
        with pytest.raises(penstock.Invalid, match="give a token"):
            Client(node.endpoint, **options)


def test_tokens(tmp_path: Path) -> None:
    node = Node(tmp_path, PENSTOCK_TOKEN="secret-token").start()
    try:
        client = Client(node.endpoint, "secret-token")
        client.create_bucket("photos")
        client.put("photos/k", b"x")
        wrong = Client(node.endpoint, "wrong")
        for act in (
            lambda: wrong.get("photos/k"),
            lambda: wrong.batch("photos", ["k"]),
            lambda: wrong.stat("photos/k"),
            lambda: wrong.put("photos/k", bytes(2 << 20)),
            lambda: list(wrong.list("photos")),
        ):
            with pytest.raises(penstock.Denied) as caught:
                act()
            assert "wrong" not in str(caught.value).replace("a wrong", "") and node.endpoint in str(caught.value)
        assert "secret-token" not in repr(client)
        assert client.get("photos/k") == b"x"
    finally:
        node.stop()


def test_proxies_are_not_used(client: Client, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
        monkeypatch.setenv(name.upper(), "http://127.0.0.1:1")
    client.put(f"{bucket}/k", b"x")


def test_closing_leaves_nothing_open(node: Node, bucket: str) -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    client = Client(node.endpoint)
    client.put(f"{bucket}/k", b"x" * 100)
    client.batch(bucket, ["k"] * 10)
    with pytest.raises(penstock.NotFound):
        client.get(f"{bucket}/none")
    for _ in client.iter_batch(bucket, ["k"] * 1000):
        break
    client.close()
    if before:
        assert len(os.listdir("/proc/self/fd")) == before
    assert client.get(f"{bucket}/k") == b"x" * 100  # it goes on when it is needed
    client.close()
