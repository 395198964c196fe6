"""Fills tar shards with samples, and notes where each of them lies.

One packer has one user. What it writes becomes part of a version when that is published:
writer.py says how.
"""

from __future__ import annotations

import contextlib
import re
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from operator import index as as_index
from typing import Any, Protocol

from penstock.errors import Invalid
from penstock.manifest import Manifest
from penstock.manifest_writer import ColumnWriter, ManifestWriter, PieceAt
from penstock.payload import flat

__all__ = ["Packer", "Shelf", "row"]

_FIELD = re.compile(r"(?!__)[a-z0-9._-]{1,64}", re.ASCII)
_MAX_PIECE = (1 << 32) - 2
_END = bytes(1024)  # of a tar

Row = tuple[dict[str, tuple[int, int]], dict[str, Any]]


class Shelf(Protocol):
    """Where shards are put."""

    version: int

    def shard(self, stem: str, data: bytearray) -> tuple[str, str]:
        """Make a shard durable, and return its name and tag."""


def row(manifest: Manifest, i: int) -> Row:
    """What a sample is, wherever it lies: sizes and checksums of its fields, values of its columns."""
    pieces: dict[str, tuple[int, int]] = {}
    for field in manifest.fields:
        found = manifest.locate([i], field)
        if found.sizes[0] >= 0:
            pieces[field] = found.sizes[0], found.checksums[0] if found.checksums else -1
    values = {name: manifest.column(name)[i] for name in manifest.columns}
    return pieces, {name: value for name, value in values.items() if value is not None}


class Packer:
    """Takes samples, one after the other."""

    def __init__(
        self,
        shelf: Shelf,
        name: str,
        *,
        stem: str = "",
        classes: Mapping[str, Sequence[str]],
        all_classes: bool,
        shard_size: int,
        base: Manifest | None,
    ) -> None:
        """all_classes says that there are no others than those given, and those that base has."""
        self._shelf, self._stem, self._base = shelf, stem, base
        self._classes, self._all_classes, self._shard_size = classes, all_classes, shard_size
        self.manifest = ManifestWriter(name, shelf.version)
        self.names: list[str] = []  #: of the shards that were written
        self._shard, self._number = bytearray(), -1
        self._kept: dict[int, int] = {}  # shards of base, and their numbers here
        self._keys: set[bytes] = set()
        for column in map(base.column, base.columns) if base else ():
            self.manifest.columns[column.name] = self._column(column.name, column.type, column.classes)

    def _column(self, name: str, kind: str, classes: Sequence[str] = ()) -> ColumnWriter:
        return ColumnWriter(name, kind, [*classes, *self._classes.get(name, ())] if kind == "class" else ())

    def __len__(self) -> int:
        return len(self.manifest)

    def __contains__(self, raw: bytes) -> bool:
        return raw in self._keys

    def add(self, key: str, sample: Mapping[str, Any]) -> None:
        """Add a sample. One that is refused changes nothing. One that base has just so is not written again."""
        raw = check_key(key)
        if raw in self._keys:
            raise Invalid(f"there is a sample {key!r} already")
        fields, values = self._sorted(key, sample)
        sums = {name: (len(data), zlib.crc32(data)) for name, data in fields.items()}
        there = self._base._find(raw) if self._base else None
        if self._base and there is not None and row(self._base, there) == (sums, values):
            pieces = {name: self._where(self._base, there, name) for name in sums}
        else:
            pieces = self._write(key, fields, sums, values)
        self.manifest.add(raw, pieces, values)
        self._keys.add(raw)

    def _write(
        self,
        key: str,
        fields: Mapping[str, bytes | memoryview],
        sums: Mapping[str, tuple[int, int]],
        values: Mapping[str, Any],
    ) -> dict[str, PieceAt]:
        weight = sum(1024 + len(data) for data in fields.values())
        if self._shard and len(self._shard) + weight > self._shard_size:
            self.flush()
        if not self._shard:
            self._number = self.manifest.reserve_shard()
        pieces = {}
        for name, data in fields.items():
            self._shard += header(f"{key}.{name}", len(data))
            pieces[name] = PieceAt(self._number, len(self._shard), *sums[name])
            self._shard += data
            self._shard += bytes(-len(data) % 512)
        columns = self.manifest.columns
        for name, value in values.items():
            # For WebDataset, which knows no manifest; of a class it wants the number.
            text = str(columns[name].classes[value] if columns[name].type == "class" else value).encode()
            self._shard += header(f"{key}.{name}", len(text)) + text + bytes(-len(text) % 512)
        return pieces

    def _where(self, base: Manifest, i: int, field: str) -> PieceAt:
        found = base.locate([i], field)
        shard = found.shards[0]
        if shard not in self._kept:
            self._kept[shard] = self.manifest.add_shard(*base.shard(shard))
        return PieceAt(self._kept[shard], found.offsets[0], found.sizes[0], found.checksums[0] if found.checksums else 0)

    def _sorted(self, key: str, sample: Mapping[str, Any]) -> tuple[dict[str, bytes | memoryview], dict[str, Any]]:
        """Fields and values, all of them checked."""
        fields: dict[str, bytes | memoryview] = {}
        values: dict[str, Any] = {}
        new: dict[str, ColumnWriter] = {}
        known, columns = self.manifest.fields, self.manifest.columns
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
            if name in known or (self._base and name in self._base.fields):
                raise Invalid(f"{key}: {name} is a field of bytes, and cannot be {plain!r}")
            column = columns.get(name)
            if column is None:
                kind = {int: "int", float: "float", str: "class" if name in self._classes else "text"}[type(plain)]
                column = new[name] = self._column(name, kind)
            column.check(plain)
            if self._all_classes and column.type == "class" and plain not in column.classes:
                raise Invalid(
                    f"{key}: a part cannot give the class {plain!r} a number, because others do not know of it: "
                    f"name all of them, create(..., classes={{{name!r}: [...]}})"
                )
            values[name] = plain
        if len(known) + len(fields.keys() - known.keys()) > 64 or len(columns) + len(new) > 64:
            raise Invalid(f"{key}: a sample has at most 64 fields and 64 columns")
        columns.update(new)
        for name, value in values.items():
            if columns[name].type == "class":
                columns[name].number(value)
        return fields, values

    def flush(self) -> None:
        """Write the shard that is being filled."""
        if not self._shard:
            return
        whole = self._shard + _END  # if it cannot be written, more may follow
        name, tag = self._shelf.shard(f"{self._stem}{len(self.names):06}", whole)
        self.names.append(name)
        self.manifest.fill_shard(self._number, name, len(whole), tag)
        self._shard = bytearray()


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


def check_key(key: str) -> bytes:
    """The bytes of a key that a sample can have, or Invalid."""
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


def header(name: str, size: int) -> bytes:
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
