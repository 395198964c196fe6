"""What is known about objects, buckets and datasets without reading them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

from penstock.connection import Garbled

__all__ = ["Bucket", "DatasetInfo", "Info", "Prefix"]

_META = "x-penstock-meta-"


@dataclass(frozen=True)
class Info:
    """What is known about an object."""

    bucket: str
    key: str
    size: int
    etag: str  # changes whenever the content does
    modified: datetime
    version: str  # orders the writes of an object
    crc32: int  # of the whole content
    content_type: str = ""  # empty: none was given
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        """bucket/key, as the methods of a client take it."""
        return f"{self.bucket}/{self.key}"

    @classmethod
    def from_headers(cls, bucket: str, key: str, headers: Mapping[str, str], size: int) -> Info:
        return cls(
            bucket=bucket,
            key=key,
            size=size,
            etag=headers.get("etag", "").strip('"'),
            modified=_modified(headers),
            version=headers.get("x-penstock-version", ""),
            crc32=_crc(headers.get("x-penstock-crc32")),
            content_type=_content_type(headers.get("content-type")),
            metadata={name.removeprefix(_META): value for name, value in headers.items() if name.startswith(_META)},
        )

    @classmethod
    def from_json(cls, bucket: str, value: object) -> Info:
        if (
            not isinstance(value, dict)
            or not isinstance(value.get("key"), str)
            or not isinstance(value.get("size"), int)
        ):
            raise Garbled(f"{str(value)[:80]!r} does not describe an object")
        metadata = value.get("metadata")
        return cls(
            bucket=bucket,
            key=value["key"],
            size=value["size"],
            etag=str(value.get("etag", "")),
            modified=parse_time(value.get("modified")),
            version=str(value.get("version", "")),
            crc32=_crc(value.get("crc32")),
            content_type=_content_type(value.get("content_type")),
            metadata=dict(metadata) if isinstance(metadata, dict) else {},
        )


@dataclass(frozen=True)
class Prefix:
    """What a listing with a delimiter shows in place of all objects whose keys begin with key."""

    bucket: str
    key: str


@dataclass(frozen=True)
class Bucket:
    """What is known about a bucket."""

    name: str
    created: datetime
    objects: int
    bytes: int
    properties: Mapping[str, object] = field(hash=False)  # everything the node says, by its names

    @classmethod
    def from_json(cls, value: object) -> Bucket:
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise Garbled(f"{str(value)[:80]!r} does not describe a bucket")
        count, size = value.get("objects"), value.get("bytes")
        return cls(
            name=value["name"],
            created=parse_time(value.get("created")),
            objects=count if isinstance(count, int) else 0,
            bytes=size if isinstance(size, int) else 0,
            properties=value,
        )


@dataclass(frozen=True)
class DatasetInfo:
    """What is known about a dataset without its manifests."""

    name: str
    bucket: str
    newest: int
    versions: tuple[int, ...]

    @classmethod
    def from_json(cls, value: object) -> DatasetInfo:
        try:
            numbers = tuple(int(v["version"]) for v in value["versions"])  # type: ignore[index]
            return cls(str(value["name"]), str(value["bucket"]), max(numbers, default=0), numbers)  # type: ignore[index]
        except (KeyError, TypeError, ValueError):
            raise Garbled(f"{str(value)[:80]!r} does not describe a dataset") from None


def _content_type(sent: object) -> str:
    """The type an object was stored with. A node that was given none sends the most general one."""
    return sent if isinstance(sent, str) and sent != "application/octet-stream" else ""


def _crc(text: object) -> int:
    if isinstance(text, str) and len(text) == 8 and text.isalnum():
        try:
            return int(text, 16)
        except ValueError:
            pass
    raise Garbled(f"{str(text)[:40]!r} is not a CRC-32")


def _modified(headers: Mapping[str, str]) -> datetime:
    if "x-penstock-modified" in headers:
        return parse_time(headers["x-penstock-modified"])
    try:
        return parsedate_to_datetime(headers.get("last-modified", ""))
    except (TypeError, ValueError):
        raise Garbled("the answer does not say when the object was written") from None


def parse_time(text: object) -> datetime:
    """RFC 3339 in UTC, as the node writes it; what is finer than a microsecond is cut."""
    if isinstance(text, str) and text.isascii() and text.endswith("Z"):
        whole, _, fraction = text[:-1].partition(".")
        try:
            return datetime.fromisoformat(f"{whole}.{fraction[:6].ljust(6, '0')}").replace(tzinfo=timezone.utc)
        except ValueError:
            pass
    raise Garbled(f"{str(text)[:40]!r} is not a time")
