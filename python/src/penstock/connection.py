"""One connection to a node: the bytes of HTTP/1.1 over a socket.

Written for one thing: to bring bodies from the socket to memory that the caller has
prepared, without a copy on the way. What is small (heads, lines between chunks) goes
through a buffer of a few KiB; the rest of a body is received in its place.

No wait is without an end. The socket's own timeout is one second at most, so that
Ctrl-C works on systems where a signal does not end a wait, and whoever waits looks
at the clock in between.

Failures are ConnectionError if the connection broke, TimeoutError with what was
waited for, and Garbled if what comes is not HTTP. A connection belongs to one
thread at a time.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable
from time import monotonic
from typing import TYPE_CHECKING

from penstock.endpoint import Endpoint

if TYPE_CHECKING:
    from ssl import SSLContext

__all__ = ["STEP", "Connection", "Garbled"]

# How many bytes must come, or be taken, within the timeout. A node has the same rule
# for its clients (serve --pace).
STEP = 1 << 20

_TICK = 1.0  # seconds between two looks at the clock
_CONNECT = 10.0  # seconds a connection may take to be made, if the timeout is longer
_BUFFER = 8 << 10  # larger means more bytes of bodies that are copied
_GATHER = 64 << 10  # what is sent is gathered up to this size
_MAX_HEAD = 256 << 10
_MAX_LINE = 1000
_CONTINUE = b"HTTP/1.1 100"
_CHUNK = re.compile(rb"\r\n([0-9a-fA-F]{1,15})\r\n")


class Garbled(Exception):
    """What the other side sends is not HTTP as a node speaks it."""


class Connection:
    """A socket and the little that was received ahead."""

    __slots__ = ("_sock", "_timeout", "_process", "_view", "_at", "_end")

    def __init__(self, sock: socket.socket, timeout: float) -> None:
        self._sock = sock
        self._timeout = timeout
        self._process = os.getpid()
        self._view = memoryview(bytearray(_BUFFER))
        self._at = self._end = 0  # what of it was received and not taken

    @classmethod
    def open(cls, endpoint: Endpoint, tls: SSLContext | None, timeout: float) -> Connection:
        """Connect. A ConnectionRefusedError is passed on as it is."""
        limit = min(timeout, _CONNECT)
        try:
            sock = socket.create_connection((endpoint.host, endpoint.port), timeout=limit)
        except TimeoutError:
            raise TimeoutError(f"waited {limit:g} s for a connection") from None
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                try:
                    sock = tls.wrap_socket(sock, server_hostname=endpoint.host)
                except TimeoutError:
                    raise TimeoutError(f"waited {limit:g} s for the TLS handshake") from None
            sock.settimeout(min(timeout, _TICK))
        except BaseException:
            sock.close()
            raise
        return cls(sock, timeout)

    def close(self) -> None:
        self._sock.close()

    def own(self) -> bool:
        """Whether this process opened the connection, and did not inherit it."""
        return self._process == os.getpid()

    def idle(self) -> bool:
        """Whether the connection is open and quiet, as one that waits for a request is."""
        if self._at < self._end:
            return False
        self._sock.settimeout(0)
        try:
            self._sock.recv(1)  # an end, or bytes nobody asked for
        except OSError as error:
            # TLS has wants of its own where a plain socket would block.
            return isinstance(error, BlockingIOError) or type(error).__name__ == "SSLWantReadError"
        finally:
            self._sock.settimeout(min(self._timeout, _TICK))
        return False

    def send(self, pieces: Iterable[bytes | bytearray | memoryview], what: str) -> None:
        """Send all pieces; small ones together. what says what it is that they make up."""
        small = bytearray()
        for piece in pieces:
            if len(small) + len(piece) <= _GATHER:
                small += piece
                continue
            if small:
                self._send(memoryview(small), what)
                small = bytearray()
            self._send(memoryview(piece), what)
        self._send(memoryview(small), what)

    def _send(self, view: memoryview, what: str) -> None:
        for start in range(0, len(view), STEP):
            step = view[start : start + STEP]
            deadline = monotonic() + self._timeout
            while step:
                try:
                    step = step[self._sock.send(step) :]
                except TimeoutError:
                    pass
                if step and monotonic() > deadline:  # also if a little is taken every now and then
                    raise TimeoutError(f"waited {self._timeout:g} s for the node to take {what}")

    def stirs(self, seconds: float) -> bool:
        """Wait for the other side to say something, so long at most. Nothing of it is lost."""
        try:
            if self._at == self._end:
                self._more(monotonic() + seconds, "an answer")
        except TimeoutError:
            return False
        return True

    def readinto(self, view: memoryview, deadline: float, what: str) -> int:
        """Put what comes next into view, at least one byte; 0 if the other side has ended."""
        have = self._end - self._at
        if have == 0:
            return self._receive(view, deadline, what)
        n = min(have, len(view))
        view[:n] = self._view[self._at : self._at + n]
        self._at += n
        return n

    def take(self, size: int) -> bytes:
        """So many bytes if they were received ahead, none otherwise."""
        at = self._at
        if self._end - at < size:
            return b""
        self._at = at + size
        return bytes(self._view[at : at + size])

    def chunk(self, deadline: float, what: str) -> int:
        """The size of the next chunk if it is at hand and written in the plainest way; otherwise 0, and nothing is taken."""
        if self._at == self._end:
            self._more(deadline, what)
        found = _CHUNK.match(self._view, self._at, self._end)
        if found is None:
            return 0
        size = int(found[1], 16)
        if size > 0:
            self._at = found.end()
        return size

    def line(self, deadline: float, what: str) -> bytes:
        """The next line, without its end. It is short: what stands between chunks."""
        while True:
            seen = bytes(self._view[self._at : min(self._end, self._at + _MAX_LINE)])
            end = seen.find(b"\n")
            if end >= 0:
                self._at += end + 1
                return seen[:end].removesuffix(b"\r")
            if len(seen) == _MAX_LINE:
                raise Garbled("a line between chunks is too long")
            self._rest(deadline, what)

    def head(self, deadline: float, what: str) -> bytes:
        """A status line and the header lines, without the empty one behind them."""
        head = bytearray()
        while True:
            if self._at == self._end:
                self._rest(deadline, what)
            start = max(0, len(head) - 3)
            head += self._view[self._at : self._end]
            end = head.find(b"\r\n\r\n", start)
            if end >= 0:
                self._at = self._end - (len(head) - end - 4)
                return bytes(head[:end])
            self._at = self._end
            if len(head) > _MAX_HEAD:
                raise Garbled("the answer's header has no end")

    def skip_continue(self, timeout: float, what: str) -> bool:
        """Take the answer that says `100 Continue`, if that is what comes next."""
        deadline = monotonic() + timeout
        while self._end - self._at < len(_CONTINUE):
            self._rest(deadline, f"the answer about {what}")
        if self._view[self._at : self._at + len(_CONTINUE)] != _CONTINUE:
            return False
        self.head(deadline, f"the answer about {what}")
        return True

    def _rest(self, deadline: float, what: str) -> None:
        """Receive more, unless it is too late: what drips byte by byte never lets the socket time out."""
        if monotonic() > deadline:
            raise TimeoutError(f"waited {self._timeout:g} s for {what}")
        self._more(deadline, what)

    def _more(self, deadline: float, what: str) -> None:
        """Receive more into the buffer, behind what is there."""
        have = self._end - self._at
        if self._at > 0:
            self._view[:have] = self._view[self._at : self._end]
            self._at, self._end = 0, have
        n = self._receive(self._view[have:], deadline, what)
        if n == 0:
            raise ConnectionError(f"the node closed the connection; {what} was still to come")
        self._end += n

    def _receive(self, view: memoryview, deadline: float, what: str) -> int:
        if self._process != os.getpid():  # a batch was being read when the process forked: the bytes are the parent's
            raise ConnectionError("the connection is that of the parent process")
        while True:
            try:
                return self._sock.recv_into(view)
            except TimeoutError:
                if monotonic() > deadline:
                    raise TimeoutError(f"waited {self._timeout:g} s for {what}") from None
