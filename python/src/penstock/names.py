"""What things are called: buckets, objects, and references to either or to a part."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote

from penstock.errors import Invalid

__all__ = ["Ref", "bucket_path", "check_bucket", "encode_key", "object_path", "split"]

MAX_KEY = 1024

_BUCKET = re.compile(r"[a-z0-9](?:[a-z0-9-]|\.(?!\.)){1,61}[a-z0-9]", re.ASCII)
_ADDRESS = re.compile(r"[0-9]+(?:\.[0-9]+){3}", re.ASCII)


class Ref(NamedTuple):
    """What a batch asks for: an object, a file inside an object that is a tar, or a range of either.

    A negative offset counts from the end; a length of None reaches to the end. The
    bucket is that of the batch unless the reference has its own. crc32 is what the
    bytes must have, if that is known; others are Stale, and so is a range that is not
    there as a whole.
    """

    key: str
    member: str | None = None
    offset: int = 0
    length: int | None = None
    bucket: str | None = None
    crc32: int | None = None


def split(name: str) -> tuple[str, str]:
    """Take "bucket/key" apart at the first slash."""
    bucket, slash, key = name.partition("/")
    if not slash:
        raise Invalid(f"{name!r} is not BUCKET/KEY")
    check_bucket(bucket)
    encode_key(key)
    return bucket, key


def check_bucket(name: str) -> None:
    """Refuse what cannot name a bucket, so that the node need not."""
    if not _BUCKET.fullmatch(name) or _ADDRESS.fullmatch(name):
        raise Invalid(
            f"bucket name {name!r} must have 3 to 63 characters a-z, 0-9, dot and dash, a letter or digit first and last, "
            "no two dots in a row, and not be an IP address"
        )


def encode_key(key: str) -> bytes:
    """The bytes of a key: any UTF-8, 1 to 1024 of them."""
    try:
        data = key.encode()
    except UnicodeEncodeError:
        raise Invalid(f"key {key!r} cannot be written as UTF-8") from None
    if not 0 < len(data) <= MAX_KEY:
        raise Invalid(f"key of {len(data)} bytes: it must have 1 to {MAX_KEY}")
    return data


def bucket_path(bucket: str) -> str:
    """The path of a bucket in the API."""
    check_bucket(bucket)
    return f"/v1/buckets/{bucket}"


def object_path(bucket: str, key: str) -> str:
    """The path of an object in the API. A key is no path: "a//b", "." and ".." stay as they are."""
    return f"/v1/objects/{bucket}/{quote(encode_key(key), safe='/~')}"
