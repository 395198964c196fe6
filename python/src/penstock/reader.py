"""The bytes of one object, as they come."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING
from zlib import crc32

from penstock.answer import Answer
from penstock.connection import Garbled
from penstock.errors import Corrupt, Invalid, PenstockError
from penstock.info import Info
from penstock.memory import gather
from penstock.transport import Transport

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["Reader", "range_header"]

# How much memory is taken on the word of the node alone.
_TRUST = 64 << 20
_MAX_OFFSET = (1 << 63) - 1


class Reader(io.RawIOBase):
    """A range of one state of an object: a raw file that is read from front to back.

    A whole object is checked against its CRC-32: a read fails with Corrupt instead of
    giving the last bytes if they, or any before them, are not the ones that were
    written. If the connection breaks a read fails with Unavailable.
    """

    def __init__(
        self, transport: Transport, answer: Answer, bucket: str, key: str, offset: int, length: int | None
    ) -> None:
        super().__init__()
        self._answer = answer  # before anything can fail: close needs it
        first, sent, size = _bounds(answer)
        self.info = Info.from_headers(bucket, key, answer.headers, size)
        self.offset = max(0, size + offset) if offset < 0 else offset
        self.length = size - self.offset if length is None else min(length, size - self.offset)
        if first != self.offset or sent < self.length:
            raise Garbled(f"asked for {self.length} bytes at {self.offset}, was sent {sent} at {first}")
        self._transport = transport
        self._read = 0
        self._crc = 0
        self._whole = self.length == size
        self._error: PenstockError | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if self._error is not None:
            raise self._error
        view = memoryview(buffer).cast("B")[: self.length - self._read]
        try:
            self._fill(view)
        except PenstockError as error:
            self._error = error
            raise
        except (OSError, Garbled) as cause:
            self._error = self._transport.failure(cause, self.info.name).error
            raise self._error from cause
        return len(view)

    def whole(self) -> bytes:
        """All of it. A failure of the connection is raised as it is, so that it can be repeated."""
        return bytes(gather(self.length, _TRUST, self._fill))

    def _fill(self, view: memoryview) -> None:
        """Fill view, which must not be larger than what is left."""
        try:
            n = self._answer.readinto(view)
        except BaseException:
            self._answer.abort()  # or else closing would wait for the rest
            raise
        if n < len(view):
            raise ConnectionError(f"{self._read + n} bytes came of {self.length}")
        self._read += n
        if not self._whole:
            return
        self._crc = crc32(view, self._crc)
        if self._read == self.length and self._crc != self.info.crc32:
            message = f"{self.info.name}: the bytes received have CRC-32 {self._crc:08x}, the object has {self.info.crc32:08x}"
            raise self._transport.error(Corrupt, message)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._answer.close()


def range_header(offset: int, length: int | None) -> Mapping[str, str]:
    """The header that asks for a range. HTTP has none that begins counted from the end and
    stops before it; the reader cuts that one."""
    if length is not None and length <= 0:
        raise Invalid(f"a length of {length} bytes cannot be asked for; None reaches to the end")
    if offset == 0 and length is None:
        return {}
    if offset < 0:
        return {"Range": f"bytes={max(offset, -_MAX_OFFSET)}"}
    if length is None or offset + length > _MAX_OFFSET:
        return {"Range": f"bytes={offset}-"}
    return {"Range": f"bytes={offset}-{offset + length - 1}"}


def _bounds(answer: Answer) -> tuple[int, int, int]:
    """First byte, number of bytes, and size of the object that an answer holds."""
    if answer.length is None:
        raise Garbled("the answer does not say how large it is")
    if answer.status != 206:
        return 0, answer.length, answer.length
    text = answer.headers.get("content-range", "")
    first, _, rest = text.removeprefix("bytes ").partition("-")
    last, _, size = rest.partition("/")
    if not all(number.isascii() and number.isdigit() and len(number) < 20 for number in (first, last, size)):
        raise Garbled(f"Content-Range {text[:40]!r}")
    if not int(first) <= int(last) < int(size) or int(last) - int(first) + 1 != answer.length:
        raise Garbled(f"Content-Range {text[:40]!r} of {answer.length} bytes")
    return int(first), answer.length, int(size)
