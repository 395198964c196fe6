"""The frames of batches: references out, items in, objects out.

docs/internals/wire.md draws the bytes; testdata/vectors/wire holds examples. Nothing
here trusts what it reads: a length is believed when its bytes are there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol
from zlib import crc32

from penstock.checksum import crc32s
from penstock.errors import KINDS, Corrupt, Internal, Invalid, PenstockError, Stale
from penstock.memory import Memory, gather
from penstock.names import MAX_KEY, Ref, check_bucket, encode_key
from penstock.payload import Buffer, flat

__all__ = [
    "BATCH_TYPE",
    "MAX_REFS",
    "OBJECTS_TYPE",
    "REFS_TYPE",
    "BatchReader",
    "Item",
    "Upload",
    "encode_objects",
    "encode_refs",
]

REFS_TYPE = "application/vnd.penstock.refs"
BATCH_TYPE = "application/vnd.penstock.batch"
OBJECTS_TYPE = "application/vnd.penstock.objects"

MAX_REFS = 65536

_HAS_MEMBER, _HAS_RANGE, _HAS_BUCKET, _HAS_CRC32 = 1, 2, 4, 8
_MAX_STRING = 0xFFFF
_MAX_MESSAGE = 512
_MAX_CONTENT_TYPE = 1024

# How much memory is taken on the word of the node alone. Segments are smaller, but
# for a single large object.
_TRUST = 4 << 20

_flags_key = struct.Struct("<BH")
_range = struct.Struct("<qq")
_pair = struct.Struct("<II")
_object = struct.Struct("<HHIQ")

# What a batch gives for a reference: its bytes, or why there are none.
Item = memoryview | PenstockError


class Upload(NamedTuple):
    """One of many objects that are stored together."""

    key: str
    data: Buffer
    content_type: str = ""


def encode_refs(bucket: str, refs: Sequence[str | Ref]) -> bytes:
    """The request for refs; a plain string is the key of a whole object."""
    if len(refs) > MAX_REFS:
        raise Invalid(f"{len(refs)} references are more than {MAX_REFS}")
    out = [b"pstkref1", struct.pack("<I", len(refs)), _string(bucket.encode())]
    if (keys := _plain_keys(refs)) is not None:
        return b"".join(out + keys)
    for index, ref in enumerate(refs):
        try:
            if isinstance(ref, str):
                key = encode_key(ref)
                out.append(_flags_key.pack(0, len(key)))
                out.append(key)
            elif isinstance(ref, Ref):
                _encode_ref(out, ref)
            else:
                raise Invalid(f"{ref!r} is neither a key nor a Ref")
        except Invalid as error:
            raise Invalid(f"reference {index}: {error}") from None
    return b"".join(out)


def _plain_keys(refs: Sequence[str | Ref]) -> list[bytes] | None:
    """The references, if all of them are keys and good ones: in few steps, since there are many of them."""
    try:
        keys = list(map(str.encode, refs))  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError):
        return None
    heads = {size: _flags_key.pack(0, size) for size in set(map(len, keys)) if 0 < size <= MAX_KEY}
    try:
        return [piece for key in keys for piece in (heads[len(key)], key)]
    except KeyError:
        return None


def _encode_ref(out: list[bytes], ref: Ref) -> None:
    key = encode_key(ref.key)
    flags = 0
    rest = b""
    if ref.member is not None:
        flags |= _HAS_MEMBER
        rest += _string(_encode_member(ref.member))
    if ref.offset != 0 or ref.length is not None:
        flags |= _HAS_RANGE
        length = 0 if ref.length is None else ref.length
        if not -(1 << 63) <= ref.offset < 1 << 63 or not 0 <= length < 1 << 63 or ref.length == 0:
            raise Invalid(
                f"a range of {ref.length} bytes at {ref.offset} cannot be asked for; a length of None reaches to the end"
            )
        rest += _range.pack(ref.offset, length)
    if ref.bucket is not None:
        check_bucket(ref.bucket)
        flags |= _HAS_BUCKET
        rest += _string(ref.bucket.encode())
    if ref.crc32 is not None:
        if not 0 <= ref.crc32 < 1 << 32:
            raise Invalid(f"{ref.crc32} is not a CRC-32")
        flags |= _HAS_CRC32
        rest += struct.pack("<I", ref.crc32)
    out.append(_flags_key.pack(flags, len(key)))
    out.append(key)
    out.append(rest)


def _encode_member(member: str) -> bytes:
    try:
        data = member.encode()
    except UnicodeEncodeError:
        raise Invalid(f"member {member!r} cannot be written as UTF-8") from None
    if not 0 < len(data) <= _MAX_STRING:
        raise Invalid(f"member name of {len(data)} bytes: it must have 1 to {_MAX_STRING}")
    return data


def _string(data: bytes) -> bytes:
    return struct.pack("<H", len(data)) + data


def encode_objects(objects: Sequence[Upload]) -> list[Buffer]:
    """The body of a put-batch, in pieces: the objects' bytes are not copied."""
    out: list[Buffer] = [b"pstkput1"]
    for key, data, content_type in objects:
        name, kind = encode_key(key), _encode_content_type(content_type)
        if (view := flat(data)) is None:
            raise Invalid(f"{key}: {type(data).__name__} is not bytes-like")
        out.append(_object.pack(len(name), len(kind), crc32(view), len(view)) + name + kind)
        out.append(view)
    out.append(_pair.pack(0, len(objects)) + b"pstkpend")
    return out


def _encode_content_type(content_type: str) -> bytes:
    data = content_type.encode("utf-8", "replace")
    # A control character could not have come in a header, and must not go out in one.
    if len(data) > _MAX_CONTENT_TYPE or any(byte < 0x20 or byte == 0x7F for byte in data):
        raise Invalid(
            f"content type {content_type!r} must be UTF-8 of at most {_MAX_CONTENT_TYPE} bytes without control characters"
        )
    return data


class Source(Protocol):
    """Where an answer's bytes come from."""

    def readinto(self, view: memoryview, /) -> int:
        """Fill view; less than all of it means that there is no more."""

    def take(self, size: int, /) -> bytes:
        """The next bytes, few of them; fewer mean that there are no more."""


class BatchReader:
    """Reads the answer to a batch, segment by segment.

    A segment's items lie in one piece of memory, which is theirs as long as one of
    them lives. All their bytes are checked. name says what the n-th reference
    is called, where says which node it is, for messages. check is given the number of
    an item, its size and its CRC-32; if it says something, that is why the item is not
    what was asked for.
    """

    def __init__(
        self,
        source: Source,
        count: int,
        limit: int,
        *,
        memory: Memory | None = None,
        name: Callable[[int], str] = "item {}".format,
        where: str = "",
        check: Callable[[int, int, int], str] | None = None,
    ) -> None:
        self._source = source
        self._memory = memory or Memory()
        self._count = count
        self._limit = limit  # of the bytes of one segment
        self._name = name
        self._where = where
        self._check = check
        self.read = 0  # items of all segments so far

    def segments(self) -> Iterator[list[Item]]:
        """The items of one segment after the other; one that failed is an error in its place.

        What is raised is about the answer as a whole, and items that did not come:
        ConnectionError if it breaks off, Corrupt if it is malformed, Invalid if a
        segment is too large.
        """
        head = self._take(16)
        if head[:8] != b"pstkbat1" or head[12:] != bytes(4):
            raise self._malformed("the answer does not begin with pstkbat1")
        if (count := int.from_bytes(head[8:12], "little")) != self._count:
            raise self._malformed(f"the answer has {count} items, {self._count} were asked for")
        while True:
            head = self._take(8)
            n, zero = _pair.unpack(head)
            if n == 0:
                return self._end(head)
            if zero != 0 or n > self._count - self.read:
                raise self._malformed(f"a segment of {n} items begins behind item {self.read} of {self._count}")
            items = self._segment(n, head)
            self.read += n
            yield items

    def _segment(self, n: int, head: bytes) -> list[Item]:
        sizes = self._take(8 * n)
        lengths = struct.unpack(f"<{n}Q", sizes)
        total = sum(lengths)
        if total > self._limit:
            raise Invalid(
                f"the items from {self._name(self.read)} on have {total} bytes, more than {self._limit} at once{self._where}"
            )
        data = self._data(total)
        states = self._take(8 * n + 4)
        pairs = struct.unpack_from(f"<{2 * n}I", states)
        failed = [i for i, status in enumerate(pairs[::2]) if status] if any(pairs[::2]) else []
        messages: dict[int, str] = {}
        if failed:
            states, messages = self._messages(failed, states)
        if crc32(head + sizes + states[:-4]) != int.from_bytes(states[-4:], "little"):
            raise self._malformed(f"the segment from {self._name(self.read)} on does not have its checksum")

        ends = list(accumulate(lengths))
        begins = [0, *ends[:-1]]
        items: list[Item] = [data[begin:end] for begin, end in zip(begins, ends)]
        sums = crc32s(data, begins, lengths)
        for i, crc in enumerate(pairs[1::2]) if sums != list(pairs[1::2]) else ():
            if sums[i] != crc:
                items[i] = self._damaged(i, crc)
        if self._check is not None:
            for i, (size, crc) in enumerate(zip(lengths, pairs[1::2])):
                if message := self._check(self.read + i, size, crc):
                    items[i] = Stale(message + self._where)
        for i in failed:
            items[i] = self._failed(pairs[2 * i], messages[i])
        return items

    def _messages(self, failed: list[int], states: bytes) -> tuple[bytes, dict[int, str]]:
        """Read the messages of items that failed, which stand before the checksum. They are added to states."""
        messages = {}
        at = len(states) - 4
        for i in failed:
            states += self._take(at + 6 - len(states))  # the checksum's 4 bytes will come in any case
            length = int.from_bytes(states[at : at + 2], "little")
            if length > _MAX_MESSAGE:
                raise self._malformed(f"the message of {self._name(self.read + i)} has {length} bytes")
            states += self._take(length)
            messages[i] = states[at + 2 : at + 2 + length].decode("utf-8", "replace")
            at += 2 + length
        return states, messages

    def _failed(self, status: int, message: str) -> PenstockError:
        kind = KINDS[status - 1] if status <= len(KINDS) else Internal  # one that a later version has added
        return kind((message or kind.kind) + self._where)

    def _damaged(self, i: int, crc: int) -> PenstockError:
        name = self._name(self.read + i)
        return Corrupt(
            f"{name} does not have the checksum {crc:08x} that came with it: it was damaged on the way{self._where}"
        )

    def _end(self, mark: bytes) -> None:
        if mark[4:] != b"pend" or self.read != self._count:
            raise self._malformed(f"the answer ends behind item {self.read} of {self._count}")
        try:
            more = self._source.take(1)
        except OSError:
            return  # everything has come
        if more:
            raise self._malformed("something follows the end of the answer")

    def _data(self, total: int) -> memoryview:
        if total > _TRUST:
            return memoryview(gather(total, _TRUST, self._fill))  # one large item
        view = self._memory.take(total)
        self._fill(view)
        return view

    def _fill(self, view: memoryview) -> None:
        if self._source.readinto(view) < len(view):
            raise self._short()

    def _take(self, size: int) -> bytes:
        data = self._source.take(size)
        if len(data) < size:
            raise self._short()
        return data

    def _short(self) -> Exception:
        return ConnectionError(f"the answer breaks off behind item {self.read} of {self._count}")

    def _malformed(self, message: str) -> PenstockError:
        return Corrupt(message + self._where)
