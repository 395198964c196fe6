"""Which samples a dataset version has, and where their bytes are.

A manifest is the one file of a dataset version. Its logical part never changes: the
samples in their order, their keys, the sizes and checksums of their fields, and small
columns of values. Apart from it stand the locations: shard, offset and length of each
field. Nodes read and write the same in Go (``internal/manifest``); the bytes are drawn
in ``docs/internals/manifest.md``, and ``testdata/vectors/manifest`` holds examples.

    manifest = Manifest.open("imagenet.manifest")
    manifest.key(42)
    manifest.find("n01440764/10026")
    shards, offsets, sizes, checksums = manifest.locate([3, 1, 2], "jpg")
    manifest.column("label")[42]

The file is mapped, so that many processes share one copy of it. Opening reads the head
only; every other block of 64 KiB is checked when it is first used. What is damaged
raises Corrupt, and never gives a wrong value.
"""

from __future__ import annotations

import bisect
import hashlib
import mmap
import os
import re
import stat
import struct
import sys
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from operator import add
from typing import Any, NamedTuple

from penstock.errors import Corrupt, Invalid, NotFound, Stale
from penstock.manifest_column import Column
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
    KEYS,
    KEY_ENDS,
    LEARNT,
    MAGIC,
    MAX_HEAD,
    NAMES,
    NAME_ENDS,
    NONE,
    NUMBERS,
    OFFSETS,
    OWN_SHARD,
    PRESENT,
    PRINTS,
    SECTIONS,
    SHARD_FORMS,
    SHARD_OF,
    SHARD_SIZES,
    SIZES,
    SUMS,
    TAGS,
    TAG_ENDS,
    TEXTS,
    TYPES,
    VALUES,
    aligned,
    buckets,
    hash_key,
)
from penstock.manifest_sections import Area, Blocks, Strings, check_number, check_numbers, getter

__all__ = ["Column", "Located", "Manifest", "Shard"]

_LIMIT = 1 << 63
_CROWDED = 64  # no honest keys fill a bucket of the hash index so far
_NAME = re.compile(r"(?!__)[A-Za-z0-9._-]{1,64}")
_DATASET = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


class Shard(NamedTuple):
    """An object that holds pieces of samples."""

    name: str  #: a key: whoever takes it for a path makes sure that it leads nowhere else
    size: int
    tag: str  #: ETag or checksum as its place has it; may be empty
    format: int  #: 1 tar, 2 records, 3 TFRecord, 4 something else; no reader of pieces needs it


class Located(NamedTuple):
    """Where a field of several samples lies. A sample without it has shard and size -1."""

    shards: Sequence[int]
    offsets: Sequence[int]
    sizes: Sequence[int]
    checksums: Sequence[int] | None  #: CRC-32; None if they are not known


class Manifest:
    """The manifest of one version of a dataset, for reading.

    It may be used by several threads and goes on working after a fork. It pickles as the
    path it was opened with.
    """

    name: str  #: of the dataset
    version: int  #: of the dataset
    created: int  #: nanoseconds since 1970, 0 if it is not known
    seed: int  #: of the permutation that put the samples into this order
    chunk_samples: int  #: how many consecutive samples are a chunk
    hash: str  #: identifies the samples, whatever their places: what training state refers to
    tag: str  #: identifies the whole file: whether there is a newer one
    fields: tuple[str, ...]
    columns: tuple[str, ...]
    shards: int  #: how many there are
    _samples: int
    _table_at: int

    def __init__(self, data: Any, *, path: str | None = None) -> None:
        """Read a manifest that is in memory: bytes, or anything that can be viewed as bytes."""
        self._path = path
        self._label = f"manifest {path}" if path else "manifest"
        self._mapped = isinstance(data, mmap.mmap)
        self._views: list[memoryview] = []
        self._source = data
        try:
            self._parse(self._kept(memoryview(data).toreadonly().cast("B") if len(data) else memoryview(b"")))
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, map: bool = True) -> Manifest:
        """Open the manifest in a file.

        A mapped file must only be replaced by renaming another over it: if it were cut short
        instead, the operating system would end the process. With map=False it is read into
        memory, once for each process; so is one of up to 64 KiB, and any if there are so many
        that their mappings would take more than a quarter of the files that the process may have.
        """
        full = os.path.abspath(os.fspath(path))
        try:
            with open(full, "rb", opener=_at_once) as file:
                about = os.fstat(file.fileno())
                if not stat.S_ISREG(about.st_mode):
                    raise Invalid(f"manifest {full} is not a file")
                if about.st_size == 0:
                    raise Invalid(f"manifest {full} is empty")
                if not map or about.st_size <= _SMALL or not _may_map():
                    return cls(file.read(), path=full)
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ, **_NO_FD)
                _mapped_now.add(mapped)
                return cls(mapped, path=full)
        except FileNotFoundError as error:
            if isinstance(error, NotFound):
                raise
            raise NotFound(f"manifest {full} does not exist") from error

    def close(self) -> None:
        """Give the file back. Views that were handed out stay good, and keep it open until they go."""
        for view in reversed(self._views):
            try:
                view.release()
            except BufferError:  # somebody made an array of it
                pass
        self._views.clear()
        source, self._source = self._source, None
        if self._mapped and source is not None:
            try:
                source.close()
            except BufferError:
                pass

    def __enter__(self) -> Manifest:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Manifest {self.name}@{self.version}: {len(self)} samples>"

    def __str__(self) -> str:
        return self._label

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is None:
            return type(self), (bytes(self._source),)
        return _reopen, (type(self), self._path, self._mapped, self.hash)

    def __len__(self) -> int:
        return self._samples

    def key(self, i: int) -> str:
        """Return the key of sample i."""
        check_number(i, self._samples, self._label)
        return self._keys.text(i)

    def keys(self, indices: Sequence[int]) -> list[str]:
        """Return the keys of the samples with these numbers, in their order."""
        return self._keys.texts(check_numbers(indices, self._samples, self._label))

    def find(self, key: str) -> int:
        """Return the number of the sample with that key, or raise NotFound."""
        i = self._find(_raw(key))
        if i is None:
            raise NotFound(f"{self} has no sample {key!r}")
        return i

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._find(_raw(key)) is not None

    def prefix(self, prefix: str) -> Iterator[int]:
        """Yield the numbers of the samples whose keys begin with prefix, in the order of the keys."""
        raw = _raw(prefix)
        ranks = range(len(self))
        start = bisect.bisect_left(ranks, raw, key=self._ranked)
        end = bisect.bisect_right(ranks, raw, lo=start, key=lambda rank: self._ranked(rank)[: len(raw)])
        for at in range(start, end, 4096):
            numbers = self._by_key.part(at, min(at + 4096, end)).tolist()
            if max(numbers) >= len(self):
                raise self._nonsense(f"the order by key speaks of sample {max(numbers)} of {len(self)}")
            yield from numbers

    def locate(self, indices: Sequence[int], field: str) -> Located:
        """Return where a field of the samples with these numbers lies, in their order."""
        f = self._field(field)
        indices = check_numbers(indices, self._samples, self._label)
        if not indices:
            return Located((), (), (), () if self._sums[f] else None)
        get = getter(indices)
        sizes: Sequence[int] = self._sizes[f].pick(indices, get)
        area = self._sums[f]
        checksums = area.pick(indices, get) if area else None
        shards, offsets = self._places(f, indices, get)
        if NONE in sizes:
            shards = [-1 if size == NONE else shard for size, shard in zip(sizes, shards)]
            offsets = [0 if size == NONE else offset for size, offset in zip(sizes, offsets)]
            sizes = [-1 if size == NONE else size for size in sizes]
        if max(shards) >= self.shards:
            raise self._nonsense(f"a sample lies in shard {max(shards)} of {self.shards}")
        if min(offsets) < 0 or max(map(add, offsets, sizes)) >= _LIMIT:
            raise self._nonsense("a sample lies beyond all files")
        return Located(shards, offsets, sizes, checksums)

    def _places(
        self, f: int, indices: Sequence[int], get: Callable[[Any], tuple[int, ...]]
    ) -> tuple[Sequence[int], Sequence[int]]:
        form = self._forms[f]
        if form == OWN_SHARD:
            return self._gaps[f].pick(indices, get), [0] * len(indices)
        shards = self._shard_of.pick(indices, get)
        offsets: Sequence[int] = self._offsets.pick(indices, get)
        if f > 0:
            gaps: Sequence[int] = self._gaps[f].pick(indices, get)
            if form == IN_BLOCKS:
                gaps = [gap * 512 for gap in gaps]
            offsets = list(map(add, offsets, gaps))
        return shards, offsets

    def checked(self, field: str) -> bool:
        """Whether the checksums of a field are known."""
        return bool(self._sums[self._field(field)])

    def shard(self, s: int) -> Shard:
        """Return what is known about shard s."""
        if not 0 <= s < self.shards:
            raise IndexError(f"{self} has no shard {s}: it has {self.shards}")
        size = self._shard_sizes[s]
        if size >= _LIMIT:
            raise self._nonsense(f"shard {s} has {size} bytes")
        return Shard(self._names.text(s), size, self._tags.text(s), self._shard_forms[s])

    def column(self, name: str) -> Column:
        """Return the column of that name."""
        try:
            return self._columns[name]
        except KeyError:
            raise NotFound(f"{self} has no column {name!r}: it has {', '.join(self.columns) or 'none'}") from None

    def verify(self) -> None:
        """Read all of the file, and raise Corrupt if it is damaged or the hash is not that of the samples."""
        data = self._views[0]
        self._blocks.good[:] = bytes(len(self._blocks.good))
        for kind, _, offset, length in self._sections:
            what = SECTIONS.get(kind, f"bytes of kind {kind}")
            self._blocks.check(range(offset // BLOCK, -(-(offset + length) // BLOCK)), what)
        digest = hashlib.sha256(self._description)
        for n, (kind, item, offset, length) in enumerate(self._sections):
            end = self._sections[n + 1][2] if n + 1 < len(self._sections) else self._table_at
            if any(data[offset + length : end]):
                raise self._nonsense(f"there is something behind section {kind}")
            if kind < BY_KEY and kind in SECTIONS:
                digest.update(struct.pack("<HHQ", kind, item, length))
                with data[offset : offset + length] as view:
                    digest.update(view)
        if digest.hexdigest() != self.hash:
            raise self._nonsense("the samples do not have the hash they should have")

    # What follows reads the head. Whatever a Go Writer would not have written is refused.

    def _parse(self, data: memoryview) -> None:
        if sys.byteorder != "little":
            raise Invalid("manifests can be read on little-endian machines only")
        if bytes(data[:8]) != MAGIC:
            raise Invalid(f"{self} is none: it does not begin with {MAGIC.decode()}")
        if len(data) < FIXED.size:
            raise self._nonsense("it ends in its head")
        (_, format, features, length, crc, _, count, size, self._table_at, self.version, created, self.seed,
         described, reserved, logical, table) = FIXED.unpack_from(data)  # fmt: skip
        if not FIXED.size <= length <= min(MAX_HEAD, len(data)) or length % ALIGN:
            raise self._nonsense(f"its head cannot have {length} bytes")
        head = bytearray(data[:length])
        self.tag = hashlib.sha256(head).hexdigest()[:32]
        head[20:24] = bytes(4)
        if zlib.crc32(head) != crc:
            raise Corrupt(f"{self}: its head is damaged")
        if format != FORMAT or features != 0:
            raise Invalid(f"{self} has format {format} and features {features:#x}; this version reads format {FORMAT}")
        self.created = created - (1 << 64) if created >= _LIMIT else created
        self.hash = logical.hex()
        blocks = -(-self._table_at // BLOCK)
        if reserved or size != len(data) or self._table_at % ALIGN or size != self._table_at + 4 * blocks:
            raise self._nonsense(f"it has {len(data)} bytes and should have {size}")
        if hashlib.sha256(data[self._table_at :]).digest() != table:
            raise Corrupt(f"{self}: its table of checksums is damaged")
        self._blocks = Blocks(data, length, self._table_at, self._label)
        try:
            self._describe(_Cursor(head, FIXED.size), described, count)
        except (ValueError, struct.error, IndexError) as error:
            raise self._nonsense(f"its head makes no sense: {error}") from error

    def _describe(self, cursor: _Cursor, described: int, count: int) -> None:
        self._samples, self.chunk_samples, fields, columns = cursor.take("<QIHH")
        _insist(self._samples < NONE and self.chunk_samples > 0 and fields <= 64 and columns <= 64)
        unchecked, names = [], []
        for _ in range(fields):
            unchecked.append(cursor.flag())
            names.append(cursor.string(_NAME))
        self.fields = tuple(names)
        self._columns: dict[str, Column] = {}
        for _ in range(columns):
            kind, optional, (classes,), name = cursor.byte(), cursor.flag(), cursor.take("<I"), cursor.string(_NAME)
            _insist(kind in TYPES and (classes <= 1 << 20 if kind == 4 else classes == 0))
            self._columns[name] = Column(name, TYPES[kind], optional, classes, self._samples, self._label)
            names.append(name)
        self.columns = tuple(self._columns)
        _insist(len(set(names)) == fields + columns and cursor.at == FIXED.size + described)
        self._description = cursor.data[FIXED.size : cursor.at]
        (self.shards,) = cursor.take("<I")
        self._forms = [cursor.byte() for _ in range(fields)]
        _insist(self.shards < NONE and self._forms[:1] in ([], [0]) and all(1 <= f <= 3 for f in self._forms[1:]))
        self.name = cursor.string(_DATASET)
        cursor.pad(8)
        self._sections: list[tuple[int, int, int, int]] = []
        end, last = len(cursor.data), (0, 0xFFFF)
        for _ in range(count):
            kind, item, zero, offset, length = cursor.take("<HHIQQ")
            _insist(zero == 0 and offset == aligned(end) and offset + length <= self._table_at and last < (kind, item))
            self._sections.append((kind, item, offset, length))
            end, last = offset + length, (kind, item)
        cursor.pad(ALIGN)
        _insist(cursor.at == len(cursor.data) and self._table_at == aligned(end))
        self._bind(unchecked)

    def _bind(self, unchecked: Sequence[bool]) -> None:
        """Find the sections. Those of unknown kinds may be ignored."""
        there = {(kind, item): (offset, length) for kind, item, offset, length in self._sections if kind in SECTIONS}

        def take(kind: int, form: str, count: int | None, item: int = 0) -> Area:
            offset, length = there.pop((kind, item), (0, -1))
            width = struct.calcsize(form)
            _insist(length >= 0 and (count is None or length == count * width), f"section {kind} of {item}")
            view = self._kept(self._views[0][offset : offset + length])
            if length and form != "B":  # nothing can be cast that is empty
                view = self._kept(view.cast(form))  # type: ignore[call-overload]
            return Area(self._blocks, view, offset, width, SECTIONS[kind])

        def strings(ends: Area, kind: int, item: int = 0) -> Strings:
            return Strings(ends, take(kind, "B", None, item), self._label)

        n, fields = self._samples, range(len(self.fields))
        self._keys = strings(take(KEY_ENDS, "Q", n), KEYS)
        self._sizes = [take(SIZES, "I", n, f) for f in fields]
        self._sums: list[Area | None] = []
        for f in fields:
            unknown = unchecked[f] and (LEARNT, f) not in there
            self._sums.append(None if unknown else take(LEARNT if unchecked[f] else SUMS, "I", n, f))
        for c, column in enumerate(self._columns.values()):
            wide = column._count > 1 << 16
            form = {"int": "q", "float": "d", "text": "Q", "class": "I" if wide else "H"}[column.type]
            column._values = take(VALUES, form, n, c)
            if column.type == "text":
                column._texts = strings(column._values, TEXTS, c)
            elif column.type == "class":
                column._texts = strings(take(CLASS_ENDS, "Q", column._count, c), TEXTS, c)
            if column.optional:
                column._bits = take(PRESENT, "B", (n + 7) // 8, c)
        self._by_key, self._buckets = take(BY_KEY, "I", n), take(BUCKETS, "I", n // 16 + 2)
        self._prints, self._numbers = take(PRINTS, "H", n), take(NUMBERS, "I", n)
        if self.fields:
            self._shard_of, self._offsets = take(SHARD_OF, "I", n), take(OFFSETS, "Q", n)
        self._gaps: dict[int, Area] = {}
        for f in fields[1:]:
            self._gaps[f] = take(GAPS, "I" if self._forms[f] == OWN_SHARD else "i", n, f)
        self._shard_sizes = take(SHARD_SIZES, "Q", self.shards)
        self._shard_forms = take(SHARD_FORMS, "B", self.shards)
        self._names = strings(take(NAME_ENDS, "Q", self.shards), NAMES)
        self._tags = strings(take(TAG_ENDS, "Q", self.shards), TAGS)
        _insist(not there, f"sections {list(there)} are too many")

    # And this looks into the sections.

    def _kept(self, view: memoryview) -> memoryview:
        """Remember a view, because a mapping cannot be closed before its views."""
        self._views.append(view)
        return view

    def _nonsense(self, what: str) -> Corrupt:
        return Corrupt(f"{self}: {what}")

    def _field(self, name: str) -> int:
        try:
            return self.fields.index(name)
        except ValueError:
            raise NotFound(f"{self} has no field {name!r}: it has {', '.join(self.fields) or 'none'}") from None

    def _ranked(self, rank: int) -> bytes:
        i = self._by_key[rank]
        if i >= self._samples:
            raise self._nonsense(f"the order by key speaks of sample {i} of {self._samples}")
        return bytes(self._keys.raw(i))

    def _find(self, raw: bytes) -> int | None:
        count = buckets(self._samples)
        hashed = hash_key(raw)
        bucket = hashed * count >> 32
        start, end = self._buckets[bucket], self._buckets[bucket + 1]
        if not start <= end <= self._samples:
            raise self._nonsense(f"bucket {bucket} of its hash index reaches from {start} to {end}")
        if end - start > _CROWDED:
            rank = bisect.bisect_left(range(self._samples), raw, key=self._ranked)
            return self._by_key[rank] if rank < self._samples and self._ranked(rank) == raw else None
        mark = hashed & 0xFFFF
        for at, found in enumerate(self._prints.part(start, end).tolist(), start):
            if found == mark:
                i = self._numbers[at]
                if i >= self._samples:
                    raise self._nonsense(f"its hash index speaks of sample {i} of {self._samples}")
                if self._keys.raw(i) == raw:
                    return i
        return None


# Before Python 3.13 a mapping keeps a file open.
_NO_FD: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
_SMALL = BLOCK
_mapped_now: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


def _may_map() -> bool:
    """Whether there is room for another mapping."""
    if _NO_FD:
        return True
    try:
        import resource
    except ImportError:
        return len(_mapped_now) < 512
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft == resource.RLIM_INFINITY or len(_mapped_now) < soft // 4


class _Cursor:
    """Walks through the head."""

    def __init__(self, data: bytearray, at: int) -> None:
        self.data = data
        self.at = at

    def take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def flag(self) -> bool:
        value = self.byte()
        _insist(value < 2)
        return value == 1

    def string(self, form: re.Pattern[str]) -> str:
        length = self.byte()
        text = self.data[self.at : self.at + length].decode("ascii")
        _insist(len(text) == length and form.fullmatch(text) is not None, f"name {text!r}")
        self.at += length
        return text

    def pad(self, to: int) -> None:
        end = -(-self.at // to) * to
        _insist(not any(self.data[self.at : end]))
        self.at = end


def _insist(holds: bool, what: str = "it contradicts itself") -> None:
    if not holds:
        raise ValueError(what)


def _raw(key: str) -> bytes:
    """Return a key's bytes. Half a surrogate pair is in no key, and its bytes are in none either."""
    return key.encode("utf-8", "surrogatepass")


def _at_once(path: str, flags: int) -> int:
    """Open a file. What is none, such as a pipe, would otherwise be waited for."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


def _reopen(cls: type[Manifest], path: str, map: bool, hash: str) -> Manifest:
    manifest = cls.open(path, map=map)
    if manifest.hash != hash:
        manifest.close()
        raise Stale(f"{manifest} has other samples than when it was sent here")
    return manifest
