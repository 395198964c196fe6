"""The answer to a request: its head, and its body in any of HTTP's three forms."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

from penstock.connection import STEP, Connection, Garbled
from penstock.pool import Pool

__all__ = ["Answer"]

_NO_LENGTH = -1
_DRAIN = 64 << 10  # bytes nobody wants that are read to keep a connection


class Answer:
    """A status, headers by their names in lower case, and a body that can be read once.

    The body's length is known, or it comes in chunks, or it ends with the connection.
    Of the last form nobody can say whether it is whole: batches, which may have it,
    carry an end mark of their own.
    """

    def __init__(
        self, connection: Connection, pool: Pool, method: str, head: bytes, *, what: str, timeout: float
    ) -> None:
        self._connection = connection
        self._pool = pool
        self._what = what  # what is waited for, in messages
        self._timeout = timeout
        self._chunked = False
        self._left = 0  # bytes of the body, or of the chunk, to come; -1 if only the end will tell
        self._first = True  # no chunk has come
        self._open = True
        self.ended = False  # the body was read to its end
        self.length: int | None = None  # what Content-Length says, also in the answer to HEAD
        self.status, self.reason, self.headers, keep = _parse(head)
        self._frame(method)
        # Whether the connection can serve another request once the body has ended.
        self.keep = keep and self._left != _NO_LENGTH

    @classmethod
    def receive(cls, connection: Connection, pool: Pool, method: str, *, what: str, timeout: float) -> Answer:
        """Read the head of an answer, over those that only say that one will come."""
        deadline = monotonic() + timeout  # one for all of them: they could go on without end
        while True:
            head = connection.head(deadline, f"the answer about {what}")
            answer = cls(connection, pool, method, head, what=f"more of {what}", timeout=timeout)
            if answer.status >= 200:
                return answer
            if monotonic() > deadline:  # they may come faster than they are read
                raise TimeoutError(f"waited {timeout:g} s for the answer about {what}")

    def close(self) -> None:
        """Give the connection back. What was not read is gone."""
        if not self._open:
            return
        self._open = False
        try:
            if self.keep and not self.ended and self._left <= _DRAIN:
                self.readinto(memoryview(bytearray(_DRAIN)))  # little is left: rather read it than connect anew
        except (OSError, Garbled):
            self.keep = False
        finally:
            self._pool.give(self._connection, keep=self.keep and self.ended)

    def abort(self) -> None:
        """Close the connection: something went wrong on it."""
        self.keep = False
        self.close()

    def _frame(self, method: str) -> None:
        """Find out where the body ends."""
        length = self.headers.get("content-length")
        if length is not None:
            if not (length.isascii() and length.isdigit()) or len(length) > 18:
                raise Garbled(f"Content-Length {length[:40]!r}")
            self.length = int(length)
        if method == "HEAD" or self.status < 200 or self.status in (204, 304):
            self.ended = True
            return
        encoding = self.headers.get("transfer-encoding", "identity").lower()
        if encoding == "chunked" and length is None:
            self._chunked = True
        elif encoding != "identity":
            raise Garbled(f"Transfer-Encoding {encoding[:40]!r}")
        elif self.length is not None:
            self._left = self.length
            self.ended = self._left == 0
        else:
            self._left = _NO_LENGTH

    def readinto(self, view: memoryview) -> int:
        """Fill view with what comes next. Less than all of it means that the body has ended."""
        at, size = 0, len(view)
        while at < size and not self.ended:
            upto = min(size, at + STEP)
            deadline = monotonic() + self._timeout
            while at < upto and not self.ended:
                at += self._some(view[at:upto], deadline)
                if at < upto and monotonic() > deadline:
                    raise TimeoutError(f"waited {self._timeout:g} s for {self._what}, which comes too slowly")
        return at

    def take(self, size: int) -> bytes:
        """The next bytes, few of them. Fewer than asked for mean that the body has ended."""
        if self._left == 0 and not self.ended:
            self._chunk(monotonic() + self._timeout)
        if size <= self._left and (data := self._connection.take(size)):  # they were received ahead
            self._left -= size
            self.ended = self._left == 0 and not self._chunked
            return data
        buffer = bytearray(size)
        return bytes(buffer[: self.readinto(memoryview(buffer))])

    def read(self, limit: int) -> bytes:
        """The rest of the body, up to so many bytes. Memory is taken as it comes."""
        body = bytearray()
        while not self.ended and len(body) < limit:
            piece = bytearray(min(max(len(body), 16 << 10), limit - len(body)))
            n = self.readinto(memoryview(piece))
            body += piece[:n] if n < len(piece) else piece
        return bytes(body)

    def _some(self, view: memoryview, deadline: float) -> int:
        if self._left == 0:
            self._chunk(deadline)  # the two other forms have ended by now
            if self.ended:
                return 0
        if 0 < self._left < len(view):
            view = view[: self._left]
        n = self._connection.readinto(view, deadline, self._what)
        self._count(n)
        return n

    def _count(self, n: int) -> None:
        """Note that so many bytes of the body have come; none means that the connection has ended."""
        if self._left > 0:
            if n == 0:
                raise ConnectionError(f"the connection ended; {self._what} was still to come")
            self._left -= n
            self.ended = self._left == 0 and not self._chunked
        elif n == 0:
            self.ended = True

    def _chunk(self, deadline: float) -> None:
        """Read what stands between two chunks, or behind the last."""
        if not self._first:
            self._left = self._connection.chunk(deadline, self._what)
            if self._left > 0:
                return
            if self._connection.line(deadline, self._what):
                raise Garbled("a chunk is longer than it said")
        self._first = False
        size = self._connection.line(deadline, self._what).partition(b";")[0].strip()
        if not 0 < len(size) < 16 or size.strip(b"0123456789abcdefABCDEF"):
            raise Garbled(f"a chunk of size {size[:20]!r}")
        self._left = int(size, 16)
        if self._left == 0:
            for _ in range(100):
                if not self._connection.line(deadline, self._what):
                    self.ended = True
                    return
            raise Garbled("too many trailers")


def _parse(head: bytes) -> tuple[int, str, Mapping[str, str], bool]:
    """Status and its words, headers, and whether the connection stays open."""
    first, *lines = head.decode("utf-8", "replace").split("\r\n")
    version, _, rest = first.partition(" ")
    status, _, reason = rest.partition(" ")
    if version not in ("HTTP/1.1", "HTTP/1.0") or not (status.isascii() and status.isdigit()) or len(status) != 3:
        raise Garbled(f"an answer that begins with {first[:40]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t")
        if not colon or not name or name != name.strip():
            raise Garbled(f"a header line {line[:40]!r}")
        if name in ("content-length", "transfer-encoding") and headers.get(name, value) != value:
            raise Garbled(f"two different headers {name}")
        headers.setdefault(name, value)
    closes = "close" in headers.get("connection", "").lower()
    return int(status), reason, headers, version == "HTTP/1.1" and not closes
