"""Readers of what the SDK only writes, so that every vector can be read, and a fake node can answer."""

from __future__ import annotations

import json
import struct
from typing import Any

from penstock.errors import Invalid
from penstock.names import check_bucket, encode_key


class Cursor:
    """Takes bytes from the front; Invalid if there are not enough."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        if len(self.data) - self.at < size:
            raise Invalid("the data ends")
        self.at += size
        return self.data[self.at - size : self.at]

    def unpack(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def string(self) -> str:
        return self.take(self.unpack("<H")[0]).decode()

    def end(self) -> None:
        if self.at != len(self.data):
            raise Invalid("something follows")


def parse_refs(data: bytes) -> list[dict[str, Any]]:
    cursor = Cursor(data)
    if cursor.take(8) != b"pstkref1":
        raise Invalid("no references")
    (count,) = cursor.unpack("<I")
    bucket = cursor.string()
    refs = []
    for _ in range(count):
        flags, length = cursor.unpack("<BH")
        if flags > 15:
            raise Invalid("an unknown flag")
        ref: dict[str, Any] = {"bucket": bucket, "key": cursor.take(length).decode()}
        if flags & 1:
            ref["member"] = cursor.string()
        if flags & 2:
            ref["offset"], ref["length"] = cursor.unpack("<qq")
        if flags & 4:
            ref["bucket"] = cursor.string()
        if flags & 8:
            ref["crc32"] = "%08x" % cursor.unpack("<I")
        check_bucket(ref["bucket"])
        encode_key(ref["key"])
        refs.append({name: value for name, value in ref.items() if value})
    cursor.end()
    return refs


def parse_refs_json(data: bytes) -> list[dict[str, Any]]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) != len(pairs):
            raise Invalid("a field comes twice")
        return dict(pairs)

    request = json.loads(data, object_pairs_hook=unique)
    return [
        {name: value for name, value in {"bucket": request["bucket"], **ref}.items() if value}
        for ref in request["refs"]
    ]


def parse_objects(data: bytes, found: list[dict[str, Any]]) -> None:
    """Append objects to found, up to the end or an error."""
    cursor = Cursor(data)
    if cursor.take(8) != b"pstkput1":
        raise Invalid("no objects")
    while True:
        key, kind, crc, size = cursor.unpack("<HHIQ")
        if key == 0:
            break
        found.append(
            {
                "key": cursor.take(key).decode(),
                "content_type": cursor.take(kind).decode(),
                "crc32": crc,
                "bytes": cursor.take(size),
            }
        )
    if kind or crc != len(found) or struct.pack("<Q", size) != b"pstkpend":
        raise Invalid("a wrong end")
    cursor.end()
