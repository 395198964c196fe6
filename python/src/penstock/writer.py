"""Makes a version of a dataset from samples that Python has.

    with penstock.create("mine", bucket="b") as w:
        w.add("0001", {"jpg": data, "cls": 7, "caption": "a cat"})

Bytes become fields, in tar shards that WebDataset reads as well; ints, floats and texts
become columns, which are in the manifest. The version appears when the block is left, as
a whole; if it is left by an exception there is none.
"""

from __future__ import annotations

import contextlib
import os
import re
import tarfile
import time
import zlib
from collections.abc import Mapping, Sequence
from operator import index as as_index
from types import TracebackType
from typing import Any, Protocol

from penstock.client import Client
from penstock.errors import Invalid
from penstock.manifest_writer import ColumnWriter, ManifestWriter, PieceAt
from penstock.payload import flat

__all__ = ["Draft", "Writer", "create"]

_DATASET = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)
_FIELD = re.compile(r"(?!__)[a-z0-9._-]{1,64}", re.ASCII)
_MAX_PIECE = (1 << 32) - 2
_END = bytes(1024)  # of a tar


class Draft(Protocol):
    """A version that is being written somewhere."""

    version: int

    def shard(self, number: int, data: bytearray) -> tuple[str, str]:
        """Make a shard durable, and return its name and tag."""

    def publish(self, manifest: bytes, about: Mapping[str, Any]) -> None:
        """Make the version visible, whole."""

    def abandon(self) -> None:
        """Remove what was written."""


def create(
    name: str,
    *,
    bucket: str | None = None,
    to: str | os.PathLike[str] | None = None,
    client: Client | None = None,
    classes: Mapping[str, Sequence[str]] | None = None,
    shard_size: int = 64 << 20,
    chunk_size: int = 4 << 20,
) -> Writer:
    """Begin the next version of a dataset, in a bucket of a node or in a directory.

    Texts of the columns in classes are names of classes, numbered as they stand there, others
    behind them as they come. `cls` is such a column if it holds texts. Samples keep the order they are
    added in: shuffle them if neighbours are alike, or let the loader do it with a large window.
    """
    if not _DATASET.fullmatch(name):
        raise Invalid(f"{name!r} cannot name a dataset: 1 to 128 letters, digits, dots, dashes and underscores can")
    if (bucket is None) == (to is None):
        raise Invalid("a dataset is written to a bucket or to a directory: pass bucket= or to=")
    if shard_size < 1 or chunk_size < 1:
        raise Invalid("sizes must be above zero")
    draft: Draft
    if to is not None:
        from penstock.draft import DirectoryDraft

        draft = DirectoryDraft(os.fspath(to), name)
    else:
        from penstock.draft import BucketDraft

        assert bucket is not None
        draft = BucketDraft(client or Client(), bucket, name)
    return Writer(draft, name, {"cls": [], **(classes or {})}, shard_size, chunk_size)


class Writer:
    """Takes samples, one after the other. Not for several threads at once."""

    def __init__(
        self, draft: Draft, name: str, classes: Mapping[str, Sequence[str]], shard_size: int, chunk_size: int
    ) -> None:
        self._draft, self._classes = draft, classes
        self._shard_size, self._chunk_size = shard_size, chunk_size
        self._manifest = ManifestWriter(name, draft.version)
        self._shard = bytearray()
        self._keys: set[bytes] = set()
        self._done = False

    @property
    def version(self) -> int:
        """The number that the version gets."""
        return self._draft.version

    def __len__(self) -> int:
        return len(self._manifest)

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.abandon()

    def add(self, key: str, sample: Mapping[str, Any]) -> None:
        """Add a sample: bytes-like values are fields, ints, floats and texts are columns, None is left out.

        One that is refused changes nothing: the next may follow.
        """
        if self._done:
            raise Invalid("the version is published or given up")
        raw = _check_key(key)
        if raw in self._keys:
            raise Invalid(f"there is a sample {key!r} already")
        fields, values = self._sorted(key, sample)
        weight = sum(1024 + len(data) for data in fields.values())
        if self._shard and len(self._shard) + weight > self._shard_size:
            self._flush()
        pieces = {}
        for name, data in fields.items():
            self._shard += _header(f"{key}.{name}", len(data))
            pieces[name] = PieceAt(len(self._manifest.shards), len(self._shard), len(data), zlib.crc32(data))
            self._shard += data
            self._shard += bytes(-len(data) % 512)
        columns = self._manifest.columns
        for name, value in values.items():
            # For WebDataset, which knows no manifest; of a class it wants the number.
            text = str(columns[name].classes[value] if columns[name].type == "class" else value).encode()
            self._shard += _header(f"{key}.{name}", len(text)) + text + bytes(-len(text) % 512)
        self._manifest.add(raw, pieces, values)
        self._keys.add(raw)

    def _sorted(self, key: str, sample: Mapping[str, Any]) -> tuple[dict[str, bytes | memoryview], dict[str, Any]]:
        """Fields and values, all of them checked."""
        fields: dict[str, bytes | memoryview] = {}
        values: dict[str, Any] = {}
        new: dict[str, ColumnWriter] = {}
        known, columns = self._manifest.fields, self._manifest.columns
        for name, value in sample.items():
            if name in ("__key__", "__index__") or value is None:
                continue
            if not _FIELD.fullmatch(name):
                raise Invalid(f"{key}: {name!r} cannot be a field: 1 to 64 of a-z, 0-9, dot, dash and underscore can")
            plain = _plain(value)
            if plain is None:
                data = flat(value)
                if data is None:
                    raise Invalid(f"{key}: {name} is {type(value).__name__}, and not bytes, an int, a float or a text")
                if name in columns:
                    raise Invalid(f"{key}: {name} is a column of {columns[name].type}s, and cannot be bytes")
                if len(data) > _MAX_PIECE:
                    raise Invalid(f"{key}: {name} has 4 GiB or more")
                fields[name] = data
                continue
            if name in known:
                raise Invalid(f"{key}: {name} is a field of bytes, and cannot be {plain!r}")
            column = columns.get(name)
            if column is None:
                kind = {int: "int", float: "float", str: "class" if name in self._classes else "text"}[type(plain)]
                column = new[name] = ColumnWriter(name, kind, self._classes.get(name, ()) if kind == "class" else ())
            column.check(plain)
            values[name] = plain
        if len(known) + len(fields.keys() - known.keys()) > 64 or len(columns) + len(new) > 64:
            raise Invalid(f"{key}: a sample has at most 64 fields and 64 columns")
        columns.update(new)
        for name, value in values.items():
            if columns[name].type == "class":
                columns[name].number(value)
        return fields, values

    def _flush(self) -> None:
        if not self._shard:
            return
        self._shard += _END
        name, tag = self._draft.shard(len(self._manifest.shards), self._shard)
        self._manifest.add_shard(name, len(self._shard), tag)
        self._shard = bytearray()

    def commit(self) -> None:
        """Publish the version. Leaving the with block does it."""
        if self._done:
            return
        self._done = True
        try:
            if len(self._manifest) == 0:
                raise Invalid("there are no samples to make a dataset of")
            self._flush()
            w = self._manifest
            chunk = max(round(self._chunk_size * len(w) / w.total), 1) if w.total else 1
            data, logical = w.finish(chunk_samples=min(chunk, 1 << 31), created=time.time_ns())
            about = {
                "samples": len(w), "bytes": w.total, "fields": sorted(w.fields),
                "columns": sorted(w.columns), "logical": logical,
            }  # fmt: skip
            self._draft.publish(data, about)
        except BaseException:
            with contextlib.suppress(Exception):  # the error that led here says more
                self._draft.abandon()
            raise

    def abandon(self) -> None:
        """Give the version up, and remove what was written of it."""
        if not self._done:
            self._done = True
            self._draft.abandon()


def _plain(value: Any) -> int | float | str | None:
    """An int, a float or a text; None if it is none of them. Numbers of numpy are what they stand for."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return float(value)
    if getattr(value, "shape", ()) != ():
        return None  # an array, which is bytes-like
    with contextlib.suppress(TypeError):
        return as_index(value)
    if hasattr(value, "shape") and hasattr(value, "__float__"):
        return float(value)
    return None


def _check_key(key: str) -> bytes:
    try:
        raw = key.encode()
    except (UnicodeEncodeError, AttributeError):
        raise Invalid(f"{key!r} cannot be a key: it is no text that can be written as UTF-8") from None
    parts = key.split("/")
    if not 0 < len(raw) <= 1024 or any(part in ("", ".", "..") for part in parts) or not key.isprintable():
        raise Invalid(f"{key!r} cannot be a key: a path of 1 to 1024 printable bytes without '..' can")
    if "." in parts[-1]:
        raise Invalid(
            f"{key!r} cannot be a key: it would end at the first dot of its last element, where the field begins"
        )
    return raw


def _header(name: str, size: int) -> bytes:
    """The header of a member: what tarfile makes, ten times as fast for the names that nearly all have."""
    raw = name.encode()
    if len(raw) > 100 or not raw.isascii() or size >= 8 << 30:
        info = tarfile.TarInfo(name)
        info.size = size
        return info.tobuf(tarfile.PAX_FORMAT)
    front = raw.ljust(100, b"\0") + _OWNER + b"%011o\0" % size + b"00000000000\0"
    total = sum(front) + _REST
    return front + b"%06o\0 " % total + _BACK


_OWNER = b"0000644\0" + b"0000000\0" * 2
_BACK = (b"0" + bytes(100) + b"ustar\x0000").ljust(512 - 156, b"\0")
_REST = sum(_BACK) + 8 * ord(" ")  # the checksum counts as spaces
