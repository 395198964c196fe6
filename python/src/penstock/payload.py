"""What a request sends: bytes in memory, or what a file gives."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from penstock.errors import Invalid

__all__ = ["Buffer", "Payload", "Source", "Unreadable", "flat"]

# What is bytes-like. Other things are, too, such as an array of numpy, but no type
# before Python 3.12 says so.
Buffer = bytes | bytearray | memoryview

_READ = 256 << 10


class Unreadable(Exception):
    """What should be sent cannot be read. Not to be taken for trouble with the node."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


class Payload:
    """A length, None if it is not known, and the pieces that make it up."""

    def __init__(self, length: int | None, pieces: Callable[[], Iterable[Buffer]], *, repeatable: bool = True) -> None:
        self.length = length
        self.repeatable = repeatable
        self._pieces = pieces

    @classmethod
    def of(cls, *pieces: Buffer) -> Payload:
        return cls(sum(map(len, pieces)), lambda: pieces)

    @property
    def framing(self) -> str:
        """The header that says where the body ends."""
        return "Transfer-Encoding: chunked\r\n" if self.length is None else f"Content-Length: {self.length}\r\n"

    def framed(self) -> Iterator[Buffer]:
        """The pieces as they go out."""
        sent = 0
        try:
            for piece in self._pieces():
                sent += len(piece)
                if self.length is not None:
                    yield piece
                elif len(piece) > 0:
                    yield b"%x\r\n" % len(piece)
                    yield piece
                    yield b"\r\n"
        except Exception as error:
            raise Unreadable(error) from error
        if self.length is None:
            yield b"0\r\n\r\n"
        elif sent != self.length:
            raise Unreadable(
                Invalid(f"{sent} bytes came of something that had {self.length}: it changed while it was read")
            )


def flat(data: object) -> bytes | memoryview | None:
    """Something bytes-like as a row of bytes, without a copy; None if it is not bytes-like."""
    if isinstance(data, bytes):
        return data
    try:
        view = memoryview(data)  # type: ignore[arg-type]
    except TypeError:
        return None
    if not view.c_contiguous:
        raise Invalid("the bytes do not lie in one row; make a copy that is contiguous")
    return view.cast("B") if view.nbytes else b""


class Source:
    """What a put stores: something in memory, or an open file from where it stands.

    A file that can be sought is read twice, the first time for its checksum, so that
    the node can refuse what does not arrive as it was. Any other is sent as it comes.
    """

    def __init__(self, data: Buffer | BinaryIO) -> None:
        self.size: int | None = None
        self.crc: int | None = None
        self._file: BinaryIO | None = None
        self._start = 0
        if (view := flat(data)) is not None:
            self.size, self.crc = len(view), zlib.crc32(view)
            self.payload = Payload.of(view)
            return
        if isinstance(data, (bytes, bytearray, memoryview)) or not hasattr(data, "read"):
            raise Invalid(f"{type(data).__name__} is neither bytes-like nor an open file")
        self._file = data
        if _seekable(data):
            self._start = data.tell()
            for _ in self._read():
                pass
        self.payload = Payload(self.size, self._read, repeatable=self.size is not None)

    def _read(self) -> Iterator[bytes]:
        """Give the file's bytes, and note their number and checksum."""
        assert self._file is not None
        size, crc = 0, 0
        if _seekable(self._file):
            self._file.seek(self._start)
        while piece := self._file.read(_READ):
            if not isinstance(piece, bytes):
                raise Invalid("the file must be opened in binary mode")
            size += len(piece)
            crc = zlib.crc32(piece, crc)
            yield piece
        self.size, self.crc = size, crc


def _seekable(file: BinaryIO) -> bool:
    return bool(getattr(file, "seekable", lambda: False)())
