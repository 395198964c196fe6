"""A node that says whatever a test wants: a socket, and a script for what comes over it."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from zlib import crc32


class FakeNode:
    """Listens on a free port. Every connection is handled by script(socket, head), head by head.

    requests holds what was asked for. Leaving the with block closes everything and
    waits for the threads.
    """

    def __init__(self, script: Callable[[socket.socket, bytes], None]) -> None:
        self.script = script
        self.requests: list[bytes] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> FakeNode:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join(10)
        for connection in self._open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while head := read_head(connection):
                    self.requests.append(head)
                    self.script(connection, head)
            except OSError:
                pass


def read_head(connection: socket.socket) -> bytes:
    """A request's head, and its body if it says how long that is; b"" at the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := connection.recv(65536)):
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    while len(body) < length and b"100-continue" not in head.lower():
        if not (more := connection.recv(65536)):
            return b""
        body += more
    return data


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """An answer with a Content-Length."""
    lines = "".join(f"{header}\r\n" for header in headers)
    return f"HTTP/1.1 {status}\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


def chunked(body: bytes, size: int) -> bytes:
    """An answer in chunks of so many bytes."""
    out = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    for at in range(0, len(body), size):
        piece = body[at : at + size]
        out += b"%x\r\n%s\r\n" % (len(piece), piece)
    return out + b"0\r\n\r\n"


def closing(body: bytes) -> bytes:
    """An answer that ends with the connection."""
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nConnection: close\r\n\r\n" + body


def batch(items: list[bytes], segment: int = 1000) -> bytes:
    """The frames of a batch in which all is well."""
    out = b"pstkbat1" + struct.pack("<II", len(items), 0)
    for at in range(0, len(items), segment):
        some = items[at : at + segment]
        head = struct.pack("<II", len(some), 0) + b"".join(struct.pack("<Q", len(item)) for item in some)
        tail = b"".join(struct.pack("<II", 0, crc32(item)) for item in some)
        out += head + b"".join(some) + tail + struct.pack("<I", crc32(head + tail))
    return out + b"\0\0\0\0pend"
