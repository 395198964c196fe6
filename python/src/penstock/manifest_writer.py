"""Writes manifests: the bytes that docs/internals/manifest.md draws.

The same as package manifest does in Go, byte for byte, but in memory: about 60 bytes a
sample beside the key. Who has hundreds of millions of samples uses `penstock dataset
create`.
"""

from __future__ import annotations

import hashlib
import struct
import sys
import zlib
from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.errors import Exists, Invalid
from penstock.manifest_format import (
    ALIGN,
    BLOCK,
    BUCKETS,
    BY_KEY,
    CLASS_ENDS,
    FIXED,
    FORMAT,
    GAPS,
    IN_BLOCKS,
    IN_BYTES,
    KEYS,
    KEY_ENDS,
    MAGIC,
    MAX_HEAD,
    NAMES,
    NAME_ENDS,
    NONE,
    NUMBERS,
    OFFSETS,
    PRESENT,
    PRINTS,
    SHARD_FORMS,
    SHARD_OF,
    SHARD_SIZES,
    SIZES,
    SUMS,
    TAGS,
    TAG_ENDS,
    TAR,
    TEXTS,
    TYPES,
    VALUES,
    aligned,
    buckets,
    hash_key,
)

if TYPE_CHECKING:
    from penstock.manifest import Manifest
    from penstock.manifest_column import Column

__all__ = ["ColumnWriter", "ManifestWriter", "PieceAt"]

_MAX_TEXT, _MAX_CLASS, _MAX_CLASSES = 65535, 255, 1 << 20
_AT_ONCE = 1 << 16  # samples that are taken over together
_NUMBERS_OF_TYPES = {name: number for number, name in TYPES.items()}


class PieceAt(NamedTuple):
    """Where a field of a sample was written."""

    shard: int
    offset: int
    size: int
    crc32: int


class ColumnWriter:
    """The values of one column, as they come. Ints become floats when the first float comes."""

    def __init__(self, name: str, kind: str, classes: Sequence[str] = ()) -> None:
        self.name, self.type = name, kind
        self.values: array[Any] = array("d" if kind == "float" else "Q" if kind == "text" else "q")
        self.texts = bytearray()
        self.bits = bytearray()
        self.count = 0
        self.missing = 0
        self.classes: dict[str, int] = {}
        for label in classes:
            self.number(label)

    def number(self, label: str) -> int:
        """The number of a class, which gets the next one if it is new."""
        if label not in self.classes:
            self._check_class(label)
            self.classes[label] = len(self.classes)
        return self.classes[label]

    def _check_class(self, label: str) -> None:
        known = label in self.classes
        if not known and (not 0 < self._length(label) <= _MAX_CLASS or len(self.classes) >= _MAX_CLASSES):
            raise Invalid(
                f"column {self.name}: {label[:40]!r} cannot be a class: 1 to {_MAX_CLASS} bytes, {_MAX_CLASSES} of them"
            )

    def _length(self, text: str) -> int:
        try:
            return len(text.encode())
        except UnicodeEncodeError:  # half of a surrogate pair
            raise Invalid(f"column {self.name}: {text[:40]!r} cannot be written as UTF-8") from None

    def check(self, value: Any) -> None:
        """Raise Invalid if a value cannot be added. Nothing changes: the sample may yet be refused for another."""
        kind = {bool: "int", int: "int", float: "float", str: "text"}[type(value)]
        if self.type == "class" and kind == "text":
            self._check_class(value)
        elif (
            kind != self.type
            and not (kind == "int" and self.type == "float")
            and not (kind == "float" and self.type == "int")
        ):
            raise Invalid(f"column {self.name} holds {self.type}s, not {value!r}")
        elif kind == "int" and not -(1 << 63) <= value < 1 << 63:
            raise Invalid(f"column {self.name}: {value} does not fit into 64 bits")
        elif kind == "text" and self._length(value) > _MAX_TEXT:
            raise Invalid(
                f"column {self.name}: a text of more than {_MAX_TEXT} bytes is better a field: pass it as bytes"
            )

    def add(self, value: Any) -> None:
        """Add the value of the next sample; None if it has none."""
        if self.count % 8 == 0:
            self.bits.append(0)
        if value is None:
            self.missing += 1
        else:
            self.bits[-1] |= 1 << self.count % 8
        self.count += 1
        if self.type == "text":
            self.texts += b"" if value is None else value.encode()
            self.values.append(len(self.texts))
        elif value is None:
            self.values.append(0)
        elif self.type == "class":
            self.values.append(self.classes[value])
        else:
            if self.type == "int" and isinstance(value, float):
                self.type, self.values = "float", array("d", self.values)
            self.values.append(value)

    def take(self, column: Column, numbers: Sequence[int]) -> None:
        """Add values that samples of another manifest have."""
        if column.type != self.type and not {column.type, self.type} <= {"int", "float"}:
            raise Invalid(f"column {self.name} holds {self.type}s in one place and {column.type}s in another")
        for label in column.classes:
            self.number(label)
        for i in numbers:
            self.add(column[i])

    def skip(self, count: int) -> None:
        """Add so many samples without a value."""
        for _ in range(count):
            self.add(None)

    def sections(self, item: int) -> dict[tuple[int, int], bytes]:
        """The sections of the column."""
        out: dict[tuple[int, int], bytes] = {}
        values: array[Any] = self.values
        if self.type == "class":
            values = array("I" if len(self.classes) > 1 << 16 else "H", self.values)
            names = [label.encode() for label in self.classes]
            out[TEXTS, item], out[CLASS_ENDS, item] = b"".join(names), _ends(names).tobytes()
        elif self.type == "text":
            out[TEXTS, item] = bytes(self.texts)
        out[VALUES, item] = values.tobytes()
        if self.missing:
            out[PRESENT, item] = bytes(self.bits)
        return out


def _ends(strings: Sequence[bytes]) -> array[int]:
    ends, at = array("Q"), 0
    for string in strings:
        at += len(string)
        ends.append(at)
    return ends


class ManifestWriter:
    """Gathers samples, and gives the manifest's bytes. Fields and columns may appear at any time."""

    def __init__(self, name: str, version: int) -> None:
        self.name, self.version = name, version
        self.keys: list[bytes] = []
        self.fields: dict[
            str, tuple[array[int], array[int], array[int]]
        ] = {}  # sizes, checksums, offsets; -1 is absent
        self.columns: dict[str, ColumnWriter] = {}
        self.column_order: Sequence[str] = ()  #: columns that come first; the others follow by name
        self.shard_of = array("I")
        self.shards: list[tuple[str, int, str, int]] = []
        self.total = 0

    def __len__(self) -> int:
        return len(self.keys)

    def add_shard(self, name: str, size: int, tag: str, format: int = TAR) -> int:
        """Add a shard, and return its number."""
        self.shards.append((name, size, tag, format))
        return len(self.shards) - 1

    def reserve_shard(self) -> int:
        """The number of a shard that is not written yet."""
        return self.add_shard("", 0, "")

    def fill_shard(self, number: int, name: str, size: int, tag: str) -> None:
        """Say what became of a shard that was reserved."""
        self.shards[number] = name, size, tag, TAR

    def add(self, key: bytes, pieces: Mapping[str, PieceAt], values: Mapping[str, Any]) -> None:
        """Add a sample that was checked. All its pieces lie in one shard; its columns are known."""
        for field in pieces:
            self._field(field)
        self.keys.append(key)
        for field, (sizes, sums, offsets) in self.fields.items():
            piece = pieces.get(field)
            sizes.append(NONE if piece is None else piece.size)
            sums.append(0 if piece is None else piece.crc32)
            offsets.append(-1 if piece is None else piece.offset)
            self.total += 0 if piece is None else piece.size
        self.shard_of.append(next(iter(pieces.values())).shard if pieces else NONE)
        for name, column in self.columns.items():
            column.skip(len(self.keys) - 1 - column.count)  # it may be new
            column.add(values.get(name))

    def _field(self, name: str) -> tuple[array[int], array[int], array[int]]:
        """The arrays of a field, which no sample has if it is new."""
        if name not in self.fields:
            n = len(self.keys)
            self.fields[name] = array("I", [NONE]) * n, array("I", [0]) * n, array("q", [-1]) * n
        return self.fields[name]

    def take(self, manifest: Manifest, numbers: Sequence[int], shards: dict[int, int]) -> None:
        """Add samples of another manifest, which stay where they lie.

        shards are the numbers that its shards have here; those that are missing are added when a sample needs them.
        """
        for at in range(0, len(numbers), _AT_ONCE):
            self._take(manifest, numbers[at : at + _AT_ONCE], shards)

    def _take(self, manifest: Manifest, numbers: Sequence[int], shards: dict[int, int]) -> None:
        for column in map(manifest.column, manifest.columns):
            mine = self.columns.setdefault(column.name, ColumnWriter(column.name, column.type))
            mine.skip(len(self.keys) - mine.count)
            mine.take(column, numbers)
        lies = array("q", [-1]) * len(numbers)
        for field in manifest.fields:
            sizes, sums, offsets = self._field(field)
            found = manifest.locate(numbers, field)
            if found.checksums is None:
                raise Invalid(f"the checksums of {field} are not known in {manifest}: nothing can be added to it")
            sizes.extend(NONE if size < 0 else size for size in found.sizes)
            sums.extend(found.checksums)
            offsets.extend(-1 if size < 0 else offset for offset, size in zip(found.offsets, found.sizes))
            self.total += sum(size for size in found.sizes if size > 0)
            for j, shard in enumerate(found.shards):
                if shard >= 0 and lies[j] not in (-1, shard):
                    raise Invalid(f"a sample of {manifest} lies in several shards: nothing can be added to it")
                lies[j] = max(lies[j], shard)
        for shard in dict.fromkeys(lies):
            if shard >= 0 and shard not in shards:
                shards[shard] = self.add_shard(*manifest.shard(shard))
        self.shard_of.extend(NONE if shard < 0 else shards[shard] for shard in lies)
        self.keys.extend(manifest.key(i).encode() for i in numbers)
        for sizes, sums, offsets in self.fields.values():
            absent = len(self.keys) - len(sizes)
            sizes.extend(array("I", [NONE]) * absent)
            sums.extend(array("I", [0]) * absent)
            offsets.extend(array("q", [-1]) * absent)
        for mine in self.columns.values():
            mine.skip(len(self.keys) - mine.count)

    def finish(self, *, chunk_samples: int, created: int) -> tuple[bytes, str]:
        """The manifest and its logical hash. A key that occurs twice is Exists."""
        if sys.byteorder != "little":
            raise Invalid("manifests can be written on little-endian machines only")
        fields = sorted(self.fields)
        columns = [*self.column_order, *sorted(self.columns.keys() - set(self.column_order))]
        both = self.fields.keys() & self.columns.keys()
        if both or len(fields) > 64 or len(columns) > 64:
            what = f"{min(both)} is bytes in some and a value in others" if both else "they have more than 64 fields or columns"
            raise Invalid(f"no dataset can be made of these samples: {what}")
        sections = {**self._logical(fields, columns), **self._index()}
        forms = self._locations(fields, sections)
        described = struct.pack("<QIHH", len(self.keys), chunk_samples, len(fields), len(columns))
        for field in fields:
            described += bytes([0, len(field)]) + field.encode()
        for name in columns:
            column = self.columns[name]
            kind = _NUMBERS_OF_TYPES[column.type]
            described += struct.pack("<BBIB", kind, column.missing > 0, len(column.classes), len(name)) + name.encode()
        tail = struct.pack("<I", len(self.shards)) + forms + bytes([len(self.name)]) + self.name.encode()
        return self._assemble(described, tail, sections, created)

    def _logical(self, fields: list[str], columns: list[str]) -> dict[tuple[int, int], bytes]:
        out = {(KEY_ENDS, 0): _ends(self.keys).tobytes(), (KEYS, 0): b"".join(self.keys)}
        for f, field in enumerate(fields):
            sizes, sums, _ = self.fields[field]
            out[SIZES, f], out[SUMS, f] = sizes.tobytes(), sums.tobytes()
        for c, name in enumerate(columns):
            out.update(self.columns[name].sections(c))
        return out

    def _index(self) -> dict[tuple[int, int], bytes]:
        keys, n = self.keys, len(self.keys)
        ranked = sorted(range(n), key=keys.__getitem__)
        for a, b in zip(ranked, ranked[1:]):
            if keys[a] == keys[b]:
                raise Exists(f"two samples have the key {keys[a].decode()!r}")
        count = buckets(n)
        hashes = [hash_key(key) for key in keys]
        in_bucket = sorted(range(n), key=lambda i: hashes[i] * count >> 32)  # stable, so numbers rise within one
        starts = array("I", bytes(4 * (count + 1)))
        for hashed in hashes:
            starts[(hashed * count >> 32) + 1] += 1
        for b in range(count):
            starts[b + 1] += starts[b]
        return {
            (BY_KEY, 0): array("I", ranked).tobytes(),
            (BUCKETS, 0): starts.tobytes(),
            (PRINTS, 0): array("H", (hashes[i] & 0xFFFF for i in in_bucket)).tobytes(),
            (NUMBERS, 0): array("I", in_bucket).tobytes(),
        }

    def _locations(self, fields: list[str], sections: dict[tuple[int, int], bytes]) -> bytes:
        """Add the sections of locations, and return how each field is placed."""
        forms = bytearray(len(fields))
        all_offsets = [self.fields[field][2] for field in fields]
        if fields:
            base = array("q", (next((o for o in row if o >= 0), 0) for row in zip(*all_offsets)))
            sections[SHARD_OF, 0], sections[OFFSETS, 0] = self.shard_of.tobytes(), base.tobytes()
            for f, offsets in enumerate(all_offsets[1:], 1):
                gaps = [0 if o < 0 else o - b for o, b in zip(offsets, base)]
                far = any(not -(1 << 31) <= gap < 1 << 31 for gap in gaps)
                forms[f] = IN_BLOCKS if far else IN_BYTES  # members of a tar begin at blocks of 512
                if far and any(gap & 511 for gap in gaps):
                    raise Invalid(f"{fields[f]} lies too far from the other fields of its sample")
                sections[GAPS, f] = array("i", (gap >> 9 for gap in gaps) if far else gaps).tobytes()
        names, tags = [shard[0].encode() for shard in self.shards], [shard[2].encode() for shard in self.shards]
        sections[SHARD_SIZES, 0] = array("Q", (shard[1] for shard in self.shards)).tobytes()
        sections[SHARD_FORMS, 0] = bytes(shard[3] for shard in self.shards)
        sections[NAME_ENDS, 0], sections[NAMES, 0] = _ends(names).tobytes(), b"".join(names)
        sections[TAG_ENDS, 0], sections[TAGS, 0] = _ends(tags).tobytes(), b"".join(tags)
        return bytes(forms)

    def _assemble(
        self, described: bytes, tail: bytes, sections: dict[tuple[int, int], bytes], created: int
    ) -> tuple[bytes, str]:
        tail += bytes(-(FIXED.size + len(described) + len(tail)) % 8)
        length = aligned(FIXED.size + len(described) + len(tail) + 24 * len(sections))
        if length > MAX_HEAD:
            raise Invalid(f"the manifest's head would have {length} bytes, more than {MAX_HEAD}")
        logical, body, table = hashlib.sha256(described), bytearray(), b""
        for (kind, item), data in sorted(sections.items()):
            body += bytes(-len(body) % ALIGN)
            table += struct.pack("<HHIQQ", kind, item, 0, length + len(body), len(data))
            body += data
            if kind < BY_KEY:
                logical.update(struct.pack("<HHQ", kind, item, len(data)))
                logical.update(data)
        body += bytes(-len(body) % ALIGN)
        end = length + len(body)
        with memoryview(body) as view:
            starts = [max(at - length, 0) for at in range(0, end, BLOCK)]
            sums = array("I", (zlib.crc32(view[a:b]) for a, b in zip(starts, [*starts[1:], len(body)]))).tobytes()
        fixed = [MAGIC, FORMAT, 0, length, 0, 0, len(sections), end + len(sums), end, self.version, created, 0,
                 len(described), 0, logical.digest(), hashlib.sha256(sums).digest()]  # fmt: skip
        rest = described + tail + table
        rest += bytes(length - FIXED.size - len(rest))
        fixed[4] = zlib.crc32(FIXED.pack(*fixed) + rest)
        return b"".join((FIXED.pack(*fixed), rest, body, sums)), logical.hexdigest()
