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
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import add, itemgetter
from typing import Any, NamedTuple

from penstock.errors import Corrupt, Invalid, NotFound, Stale

__all__ = ["Column", "Located", "Manifest", "Shard"]

_MAGIC = b"PenstMan"
_FORMAT = 1
_FIXED = struct.Struct("<8s6I5Q2I32s32s")  # up to the description
_BLOCK = 1 << 16
_ALIGN = 64
_MAX_HEAD = _BLOCK - _ALIGN
_NONE = 0xFFFFFFFF  # as a size: the sample has no such field
_LIMIT = 1 << 63
_CROWDED = 64  # no honest keys fill a bucket of the hash index so far

# The kinds of sections.
_KEY_ENDS, _KEYS, _SIZES, _SUMS, _VALUES, _TEXTS, _CLASS_ENDS, _PRESENT = range(1, 9)
_BY_KEY, _BUCKETS, _PRINTS, _NUMBERS = range(16, 20)
_SHARD_OF, _OFFSETS, _GAPS, _LEARNT, _SHARD_SIZES, _SHARD_FORMS, _NAME_ENDS, _NAMES, _TAG_ENDS, _TAGS = range(32, 42)
_SECTIONS = {
    _KEY_ENDS: "ends of keys",
    _KEYS: "keys",
    _SIZES: "sizes",
    _SUMS: "checksums",
    _VALUES: "values",
    _TEXTS: "texts",
    _CLASS_ENDS: "ends of class names",
    _PRESENT: "bits of values that are present",
    _BY_KEY: "order by key",
    _BUCKETS: "buckets of the hash index",
    _PRINTS: "fingerprints of the hash index",
    _NUMBERS: "numbers of the hash index",
    _SHARD_OF: "shards of samples",
    _OFFSETS: "offsets of samples",
    _GAPS: "places of further fields",
    _LEARNT: "checksums learnt later",
    _SHARD_SIZES: "sizes of shards",
    _SHARD_FORMS: "formats of shards",
    _NAME_ENDS: "ends of shard names",
    _NAMES: "shard names",
    _TAG_ENDS: "ends of shard tags",
    _TAGS: "shard tags",
}

_TYPES = {1: "int", 2: "float", 3: "text", 4: "class"}
_IN_BYTES, _IN_BLOCKS, _OWN_SHARD = 1, 2, 3  # how a further field is placed
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


class _Blocks:
    """The checksums of all blocks, and which blocks were found good."""

    __slots__ = ("_data", "_end", "_head", "_sums", "good", "name")

    def __init__(self, data: memoryview, head: int, end: int, name: str) -> None:
        # A private copy: nobody may change what everything else is judged by.
        self._sums = memoryview(bytes(data[end:])).cast("I")
        self._data = data
        self._head = head
        self._end = end
        self.name = name
        self.good = bytearray(len(self._sums))

    def check(self, blocks: Iterable[int], what: str) -> None:
        """Make sure that blocks are as they were written."""
        for block in blocks:
            if not self.good[block]:
                start, end = max(block * _BLOCK, self._head), min((block + 1) * _BLOCK, self._end)
                with self._data[start:end] as view:
                    if zlib.crc32(view) != self._sums[block]:
                        raise Corrupt(f"{self.name}: its {what} are damaged, between bytes {start} and {end}")
                self.good[block] = 1


class _Area:
    """One section: numbers or bytes that are checked when they are first used."""

    __slots__ = ("_blocks", "_done", "_first", "_last", "_start", "_what", "_width", "view")

    def __init__(self, blocks: _Blocks, view: memoryview, start: int, width: int, what: str) -> None:
        self.view = view
        self._blocks = blocks
        self._start = start
        self._width = width
        self._what = what
        self._first = start // _BLOCK
        self._last = (start + len(view) * width - 1) // _BLOCK
        self._done = len(view) == 0

    def __getitem__(self, i: int) -> int:
        if not self._done:
            block = (self._start + i * self._width) // _BLOCK
            if not self._blocks.good[block]:
                self._blocks.check((block,), self._what)
        return self.view[i]

    def pick(self, indices: Sequence[int], get: Callable[[Any], tuple[int, ...]]) -> tuple[int, ...]:
        """Return the numbers at indices, which get takes out of a sequence."""
        if not self._done:
            start, width = self._start, self._width
            self._blocks.check({(start + i * width) // _BLOCK for i in indices}, self._what)
            self._done = self._blocks.good.find(0, self._first, self._last + 1) < 0
        return get(self.view)

    def part(self, start: int, end: int) -> memoryview:
        """Return what lies between two indices."""
        if not self._done and start < end:
            first = (self._start + start * self._width) // _BLOCK
            last = (self._start + end * self._width - 1) // _BLOCK
            self._blocks.check(range(first, last + 1), self._what)
        return self.view[start:end]

    def all(self) -> memoryview:
        """Return everything."""
        self.part(0, len(self.view))
        self._done = True
        return self.view.toreadonly()


class _Strings:
    """Strings that lie one behind the other."""

    __slots__ = ("_content", "_ends", "_name")

    def __init__(self, ends: _Area, content: _Area, name: str) -> None:
        self._ends = ends
        self._content = content
        self._name = name

    def raw(self, i: int) -> memoryview:
        start, end = self._ends[i - 1] if i else 0, self._ends[i]
        if not start <= end <= len(self._content.view):
            raise Corrupt(f"{self._name}: a string cannot reach from {start} to {end}")
        return self._content.part(start, end)

    def text(self, i: int) -> str:
        try:
            return str(self.raw(i), "utf-8")
        except UnicodeDecodeError as error:
            raise Corrupt(f"{self._name}: string {i} is not UTF-8") from error


class Column:
    """A small value that samples have, kept in the manifest itself."""

    def __init__(self, name: str, kind: str, optional: bool, count: int, length: int, of: str) -> None:
        self.name = name
        self.type = kind  #: int, float, text or class
        self.optional = optional  #: a sample may have none, which is None here
        self._count = count  # of classes
        self._length = length
        self._of = of
        self._classes: tuple[str, ...] | None = None
        self._values: _Area
        self._bits: _Area
        self._texts: _Strings

    def __repr__(self) -> str:
        return f"<Column {self.name}: {self.type}>"

    def __len__(self) -> int:
        return self._length

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of their numbers. Empty for other types."""
        if self._classes is None:
            self._classes = tuple(self._texts.text(i) for i in range(self._count))
        return self._classes

    def __getitem__(self, i: int) -> Any:
        """Return the value of sample i: an int, a float, a str, or None. Of a class it is the name."""
        _check(i, self._length, self._of)
        if self.optional and not self._bits[i >> 3] >> (i & 7) & 1:
            return None
        if self.type == "text":
            return self._texts.text(i)
        value = self._values[i]
        if self.type != "class":
            return value
        if value >= self._count:
            raise Corrupt(f"{self._of}: sample {i} has class {value} of {self._count} in column {self.name}")
        return self.classes[value]

    def numbers(self, indices: Sequence[int]) -> tuple[Any, ...]:
        """Return the numbers of several samples: values, or the numbers of their classes.

        Where an optional column has none, it is 0. Texts have no numbers.
        """
        if self.type == "text":
            raise Invalid(f"column {self.name} holds texts, not numbers")
        indices = _checked(indices, self._length, self._of)
        if not indices:
            return ()
        numbers = self._values.pick(indices, _getter(indices))
        if self.type == "class" and max(numbers) >= max(self._count, 1):
            raise Corrupt(f"{self._of}: a sample has class {max(numbers)} of {self._count} in column {self.name}")
        return numbers

    @property
    def values(self) -> memoryview:
        """All numbers, as by numbers(), without a copy: numpy.asarray takes it as it is."""
        if self.type == "text":
            raise Invalid(f"column {self.name} holds texts, not numbers")
        return self._values.all()

    @property
    def present(self) -> memoryview | None:
        """One bit for each sample, the lowest first: whether it has a value. None: all have."""
        return self._bits.all() if self.optional else None


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
        memory, once for each process.
        """
        full = os.path.abspath(os.fspath(path))
        try:
            with open(full, "rb", opener=_at_once) as file:
                about = os.fstat(file.fileno())
                if not stat.S_ISREG(about.st_mode):
                    raise Invalid(f"manifest {full} is not a file")
                if about.st_size == 0:
                    raise Invalid(f"manifest {full} is empty")
                if not map:
                    return cls(file.read(), path=full)
                return cls(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), path=full)
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
        _check(i, self._samples, self._label)
        return self._keys.text(i)

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
        indices = _checked(indices, self._samples, self._label)
        if not indices:
            return Located((), (), (), () if self._sums[f] else None)
        get = _getter(indices)
        sizes: Sequence[int] = self._sizes[f].pick(indices, get)
        area = self._sums[f]
        checksums = area.pick(indices, get) if area else None
        shards, offsets = self._places(f, indices, get)
        if _NONE in sizes:
            shards = [-1 if size == _NONE else shard for size, shard in zip(sizes, shards)]
            offsets = [0 if size == _NONE else offset for size, offset in zip(sizes, offsets)]
            sizes = [-1 if size == _NONE else size for size in sizes]
        if max(shards) >= self.shards:
            raise self._nonsense(f"a sample lies in shard {max(shards)} of {self.shards}")
        if min(offsets) < 0 or max(map(add, offsets, sizes)) >= _LIMIT:
            raise self._nonsense("a sample lies beyond all files")
        return Located(shards, offsets, sizes, checksums)

    def _places(
        self, f: int, indices: Sequence[int], get: Callable[[Any], tuple[int, ...]]
    ) -> tuple[Sequence[int], Sequence[int]]:
        form = self._forms[f]
        if form == _OWN_SHARD:
            return self._gaps[f].pick(indices, get), [0] * len(indices)
        shards = self._shard_of.pick(indices, get)
        offsets: Sequence[int] = self._offsets.pick(indices, get)
        if f > 0:
            gaps: Sequence[int] = self._gaps[f].pick(indices, get)
            if form == _IN_BLOCKS:
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
            what = _SECTIONS.get(kind, f"bytes of kind {kind}")
            self._blocks.check(range(offset // _BLOCK, -(-(offset + length) // _BLOCK)), what)
        digest = hashlib.sha256(self._description)
        for n, (kind, item, offset, length) in enumerate(self._sections):
            end = self._sections[n + 1][2] if n + 1 < len(self._sections) else self._table_at
            if any(data[offset + length : end]):
                raise self._nonsense(f"there is something behind section {kind}")
            if kind < _BY_KEY and kind in _SECTIONS:
                digest.update(struct.pack("<HHQ", kind, item, length))
                with data[offset : offset + length] as view:
                    digest.update(view)
        if digest.hexdigest() != self.hash:
            raise self._nonsense("the samples do not have the hash they should have")

    # What follows reads the head. Whatever a Go Writer would not have written is refused.

    def _parse(self, data: memoryview) -> None:
        if sys.byteorder != "little":
            raise Invalid("manifests can be read on little-endian machines only")
        if bytes(data[:8]) != _MAGIC:
            raise Invalid(f"{self} is none: it does not begin with {_MAGIC.decode()}")
        if len(data) < _FIXED.size:
            raise self._nonsense("it ends in its head")
        (_, format, features, length, crc, _, count, size, self._table_at, self.version, created, self.seed,
         described, reserved, logical, table) = _FIXED.unpack_from(data)  # fmt: skip
        if not _FIXED.size <= length <= min(_MAX_HEAD, len(data)) or length % _ALIGN:
            raise self._nonsense(f"its head cannot have {length} bytes")
        head = bytearray(data[:length])
        self.tag = hashlib.sha256(head).hexdigest()[:32]
        head[20:24] = bytes(4)
        if zlib.crc32(head) != crc:
            raise Corrupt(f"{self}: its head is damaged")
        if format != _FORMAT or features != 0:
            raise Invalid(f"{self} has format {format} and features {features:#x}; this version reads format {_FORMAT}")
        self.created = created - (1 << 64) if created >= _LIMIT else created
        self.hash = logical.hex()
        blocks = -(-self._table_at // _BLOCK)
        if reserved or size != len(data) or self._table_at % _ALIGN or size != self._table_at + 4 * blocks:
            raise self._nonsense(f"it has {len(data)} bytes and should have {size}")
        if hashlib.sha256(data[self._table_at :]).digest() != table:
            raise Corrupt(f"{self}: its table of checksums is damaged")
        self._blocks = _Blocks(data, length, self._table_at, self._label)
        try:
            self._describe(_Cursor(head, _FIXED.size), described, count)
        except (ValueError, struct.error, IndexError) as error:
            raise self._nonsense(f"its head makes no sense: {error}") from error

    def _describe(self, cursor: _Cursor, described: int, count: int) -> None:
        self._samples, self.chunk_samples, fields, columns = cursor.take("<QIHH")
        _insist(self._samples < _NONE and self.chunk_samples > 0 and fields <= 64 and columns <= 64)
        unchecked, names = [], []
        for _ in range(fields):
            unchecked.append(cursor.flag())
            names.append(cursor.string(_NAME))
        self.fields = tuple(names)
        self._columns: dict[str, Column] = {}
        for _ in range(columns):
            kind, optional, (classes,), name = cursor.byte(), cursor.flag(), cursor.take("<I"), cursor.string(_NAME)
            _insist(kind in _TYPES and (classes <= 1 << 20 if kind == 4 else classes == 0))
            self._columns[name] = Column(name, _TYPES[kind], optional, classes, self._samples, self._label)
            names.append(name)
        self.columns = tuple(self._columns)
        _insist(len(set(names)) == fields + columns and cursor.at == _FIXED.size + described)
        self._description = cursor.data[_FIXED.size : cursor.at]
        (self.shards,) = cursor.take("<I")
        self._forms = [cursor.byte() for _ in range(fields)]
        _insist(self.shards < _NONE and self._forms[:1] in ([], [0]) and all(1 <= f <= 3 for f in self._forms[1:]))
        self.name = cursor.string(_DATASET)
        cursor.pad(8)
        self._sections: list[tuple[int, int, int, int]] = []
        end, last = len(cursor.data), (0, 0xFFFF)
        for _ in range(count):
            kind, item, zero, offset, length = cursor.take("<HHIQQ")
            _insist(zero == 0 and offset == _aligned(end) and offset + length <= self._table_at and last < (kind, item))
            self._sections.append((kind, item, offset, length))
            end, last = offset + length, (kind, item)
        cursor.pad(_ALIGN)
        _insist(cursor.at == len(cursor.data) and self._table_at == _aligned(end))
        self._bind(unchecked)

    def _bind(self, unchecked: Sequence[bool]) -> None:
        """Find the sections. Those of unknown kinds may be ignored."""
        there = {(kind, item): (offset, length) for kind, item, offset, length in self._sections if kind in _SECTIONS}

        def take(kind: int, form: str, count: int | None, item: int = 0) -> _Area:
            offset, length = there.pop((kind, item), (0, -1))
            width = struct.calcsize(form)
            _insist(length >= 0 and (count is None or length == count * width), f"section {kind} of {item}")
            view = self._kept(self._views[0][offset : offset + length])
            if length and form != "B":  # nothing can be cast that is empty
                view = self._kept(view.cast(form))  # type: ignore[call-overload]
            return _Area(self._blocks, view, offset, width, _SECTIONS[kind])

        def strings(ends: _Area, kind: int, item: int = 0) -> _Strings:
            return _Strings(ends, take(kind, "B", None, item), self._label)

        n, fields = self._samples, range(len(self.fields))
        self._keys = strings(take(_KEY_ENDS, "Q", n), _KEYS)
        self._sizes = [take(_SIZES, "I", n, f) for f in fields]
        self._sums: list[_Area | None] = []
        for f in fields:
            unknown = unchecked[f] and (_LEARNT, f) not in there
            self._sums.append(None if unknown else take(_LEARNT if unchecked[f] else _SUMS, "I", n, f))
        for c, column in enumerate(self._columns.values()):
            wide = column._count > 1 << 16
            form = {"int": "q", "float": "d", "text": "Q", "class": "I" if wide else "H"}[column.type]
            column._values = take(_VALUES, form, n, c)
            if column.type == "text":
                column._texts = strings(column._values, _TEXTS, c)
            elif column.type == "class":
                column._texts = strings(take(_CLASS_ENDS, "Q", column._count, c), _TEXTS, c)
            if column.optional:
                column._bits = take(_PRESENT, "B", (n + 7) // 8, c)
        self._by_key, self._buckets = take(_BY_KEY, "I", n), take(_BUCKETS, "I", n // 16 + 2)
        self._prints, self._numbers = take(_PRINTS, "H", n), take(_NUMBERS, "I", n)
        if self.fields:
            self._shard_of, self._offsets = take(_SHARD_OF, "I", n), take(_OFFSETS, "Q", n)
        self._gaps: dict[int, _Area] = {}
        for f in fields[1:]:
            self._gaps[f] = take(_GAPS, "I" if self._forms[f] == _OWN_SHARD else "i", n, f)
        self._shard_sizes = take(_SHARD_SIZES, "Q", self.shards)
        self._shard_forms = take(_SHARD_FORMS, "B", self.shards)
        self._names = strings(take(_NAME_ENDS, "Q", self.shards), _NAMES)
        self._tags = strings(take(_TAG_ENDS, "Q", self.shards), _TAGS)
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
        count = self._samples // 16 + 1
        hashed = zlib.crc32(raw) * 0x9E3779B1 & 0xFFFFFFFF
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


def _check(i: int, length: int, of: str) -> None:
    if not 0 <= i < length:
        raise IndexError(f"{of} has no sample {i}: it has {length}")


def _checked(indices: Sequence[int], length: int, of: str) -> Sequence[int]:
    """Make sure that all are numbers of samples: a view would take -1 for the last one."""
    if not isinstance(indices, (list, tuple, range)):
        indices = indices.tolist() if hasattr(indices, "tolist") else list(indices)
    if indices:
        _check(min(indices), length, of)
        _check(max(indices), length, of)
    return indices


def _aligned(n: int) -> int:
    return -(-n // _ALIGN) * _ALIGN


def _raw(key: str) -> bytes:
    """Return a key's bytes. Half a surrogate pair is in no key, and its bytes are in none either."""
    return key.encode("utf-8", "surrogatepass")


def _getter(indices: Sequence[int]) -> Callable[[Any], tuple[int, ...]]:
    """Return what takes the elements at indices out of a view, by a loop in C."""
    if len(indices) == 1:
        only = indices[0]
        return lambda view: (view[only],)
    return itemgetter(*indices)


def _at_once(path: str, flags: int) -> int:
    """Open a file. What is none, such as a pipe, would otherwise be waited for."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


def _reopen(cls: type[Manifest], path: str, map: bool, hash: str) -> Manifest:
    manifest = cls.open(path, map=map)
    if manifest.hash != hash:
        manifest.close()
        raise Stale(f"{manifest} has other samples than when it was sent here")
    return manifest
