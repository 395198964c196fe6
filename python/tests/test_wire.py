"""Frames: every vector, every cut, every flipped bit."""

from __future__ import annotations

import base64
import json
import random
import struct
import tracemalloc
from pathlib import Path
from typing import Any
from zlib import crc32

import fakenode
import pytest
from conftest import ROOT
from wireforms import parse_objects, parse_refs, parse_refs_json

from penstock.errors import KINDS, Corrupt, Internal, Invalid, PenstockError
from penstock.names import Ref
from penstock.wire import BatchReader, Item, Upload, encode_objects, encode_refs

VECTORS = sorted((ROOT / "testdata" / "vectors" / "wire").glob("*.json"))


class Bytes:
    """An answer in memory."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def readinto(self, view: memoryview) -> int:
        piece = self.data[self.at : self.at + len(view)]
        self.at += len(piece)
        view[: len(piece)] = piece
        return len(piece)


def read(data: bytes, count: int, limit: int = 1 << 20) -> tuple[list[Item], Exception | None]:
    """The items that come out, and what ended it."""
    items: list[Item] = []
    try:
        for segment in BatchReader(Bytes(data), count, limit).segments():
            items += segment
    except (PenstockError, ConnectionError) as error:
        return items, error
    return items, None


def kind_of(error: Exception | None) -> str:
    if error is None:
        return ""
    return error.kind if isinstance(error, PenstockError) else "Unavailable"  # it broke off


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_vectors(path: Path) -> None:
    vector = json.loads(path.read_text())
    data = path.with_suffix(".bin").read_bytes()
    want = vector.get("error", "")
    if vector["format"] == "batch":
        items, error = read(data, vector.get("count", 0), vector["max"])
        assert [shown(item) for item in items] == [expected(item) for item in vector.get("items", [])]
        assert kind_of(error) == want
    elif vector["format"] == "objects":
        check_objects(vector, data, want)
    else:
        check_refs(vector, data, want)


def shown(item: Item) -> dict[str, Any]:
    if isinstance(item, memoryview):
        return {"bytes": bytes(item)}
    return {"error": item.kind, "message": "" if "damaged on the way" in str(item) else str(item)}


def expected(item: dict[str, Any]) -> dict[str, Any]:
    if "error" in item:
        return {"error": item["error"], "message": item.get("message", "")}
    return {"bytes": base64.b64decode(item.get("bytes", ""))}


def check_objects(vector: dict[str, Any], data: bytes, want: str) -> None:
    found: list[dict[str, Any]] = []
    error = None
    try:
        parse_objects(data, found)
    except Invalid as invalid:
        error = invalid
    objects = [
        {**o, "content_type": o.get("content_type", ""), "bytes": base64.b64decode(o["bytes"])}
        for o in vector.get("objects", [])
    ]
    assert kind_of(error) == want
    assert found[: len(objects)] == objects
    if not want:
        uploads = [Upload(o["key"], o["bytes"], o["content_type"]) for o in objects]
        assert b"".join(encode_objects(uploads)) == data


def check_refs(vector: dict[str, Any], data: bytes, want: str) -> None:
    parse = parse_refs_json if vector["format"] == "json" else parse_refs
    if want:
        with pytest.raises(Invalid):
            parse(data)
        return
    assert parse(data) == vector["refs"]
    if vector["format"] == "refs":
        bucket = vector.get("bucket", "")
        assert encode_refs(bucket, [as_ref(bucket, **ref) for ref in vector["refs"]]) == data


def as_ref(common: str, bucket: str, crc32: str | None = None, **rest: Any) -> Ref:
    return Ref(**rest, bucket=None if bucket == common else bucket, crc32=None if crc32 is None else int(crc32, 16))


ITEMS = [b"one", b"", b"x" * 40, bytes(range(30))]


def test_every_cut_is_found() -> None:
    data = fakenode.batch(ITEMS, segment=2)
    second = len(fakenode.batch(ITEMS[:2])) - 8  # where the second segment begins
    for cut in range(len(data)):
        items, error = read(data[:cut], 4)
        assert isinstance(error, ConnectionError), cut
        complete = 4 if cut >= len(data) - 8 else 2 if cut >= second else 0
        assert items == ITEMS[:complete], cut


def test_every_flipped_bit_is_found() -> None:
    data = bytearray(fakenode.batch(ITEMS, segment=2))
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        items, error = read(bytes(data), 4)
        damaged = [item for item in items if isinstance(item, Corrupt)]
        assert error is not None or len(damaged) == 1, bit
        assert all(item == want for item, want in zip(items, ITEMS) if item not in damaged), bit
        data[bit // 8] ^= 1 << bit % 8


def test_random_answers() -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    for _ in range(200):
        items = [rng.randbytes(rng.randrange(60)) for _ in range(rng.randrange(1, 40))]
        got, error = read(fakenode.batch(items, segment=rng.randrange(1, 9)), len(items))
        assert got == items and error is None, seed


def test_rubbish_is_refused() -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    for _ in range(500):
        data = b"pstkbat1" + struct.pack("<II", 3, 0) + rng.randbytes(rng.randrange(100))
        assert read(data, 3)[1] is not None, seed


def segment(sizes: list[int]) -> bytes:
    return b"pstkbat1" + struct.pack(f"<IIII{len(sizes)}Q", len(sizes), 0, len(sizes), 0, *sizes)


def test_lying_sizes_cost_little_memory() -> None:
    tracemalloc.start()
    try:
        for sizes in ([1 << 62], [(1 << 64) - 1], [1 << 29], [1 << 63, 1 << 63]):
            _, error = read(segment(sizes) + b"a few bytes", len(sizes), 1 << 30)
            assert kind_of(error) in ("Invalid", "Unavailable")
        _, error = read(b"pstkbat1" + struct.pack("<IIII", 5, 0, 1 << 31, 0), 5)
        assert isinstance(error, Corrupt)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_large_items_come_whole() -> None:
    large = random.randbytes((9 << 20) + 3)
    items, error = read(fakenode.batch([b"small", large, large[: 3 << 20]], segment=1), 3, 16 << 20)
    assert error is None and items == [b"small", large, large[: 3 << 20]]


def failing(status: int, message: bytes) -> bytes:
    head = struct.pack("<IIQ", 1, 0, 0)
    tail = struct.pack("<II", status, 0) + struct.pack("<H", len(message)) + message
    return (
        b"pstkbat1" + struct.pack("<II", 1, 0) + head + tail + struct.pack("<I", crc32(head + tail)) + b"\0\0\0\0pend"
    )


def test_status_of_a_later_version() -> None:
    items, error = read(failing(11, b"new"), 1)
    assert error is None and isinstance(items[0], Internal) and str(items[0]) == "new"
    for number, kind in enumerate(KINDS, 1):
        assert type(read(failing(number, b""), 1)[0][0]) is kind


def test_long_messages_are_refused() -> None:
    assert isinstance(read(failing(2, b"x" * 513), 1)[1], Corrupt)


@pytest.mark.parametrize(
    "refs",
    [
        [""],
        ["k" * 1025],
        ["\ud800"],
        [Ref("k", member="")],
        [Ref("k", length=0)],
        [Ref("k", length=-1)],
        [Ref("k", offset=1 << 63)],
        [Ref("k", bucket="NO")],
        [Ref("k", crc32=1 << 32)],
        [Ref("k", crc32=-1)],
        [("k", "m")],
        [b"k"],
        [None],
        ["k"] * 65537,
    ],
    ids=lambda refs: repr(refs)[:30],
)
def test_references_that_make_no_sense(refs: Any) -> None:
    with pytest.raises(Invalid):
        encode_refs("bucket", refs)


def test_references_come_out_as_they_went_in() -> None:
    refs = ["a", Ref("b", "m", 3, 4), Ref("c", offset=-1), Ref("d", length=9, bucket="other")]
    assert parse_refs(encode_refs("bucket", refs)) == [
        {"bucket": "bucket", "key": "a"},
        {"bucket": "bucket", "key": "b", "member": "m", "offset": 3, "length": 4},
        {"bucket": "bucket", "key": "c", "offset": -1},
        {"bucket": "other", "key": "d", "length": 9},
    ]
