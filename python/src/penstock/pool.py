"""The connections of one client: opened when needed, kept while idle, never inherited.

A pool may be used by many threads. It has no lock, so that a fork in the middle of
anything leaves nothing locked behind; a deque does in one step what is needed here.
A child process drops what its parent had open and opens its own: two processes that
read from one socket would each get half of an answer.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from typing import TYPE_CHECKING

from penstock.connection import Connection
from penstock.endpoint import Endpoint
from penstock.errors import Invalid

if TYPE_CHECKING:
    from ssl import SSLContext

__all__ = ["Pool"]

_MAX_IDLE = 32


class Pool:
    """Connections to one endpoint. Those in use are as many as the callers have requests."""

    def __init__(self, endpoint: Endpoint, ca_file: str | None, timeout: float) -> None:
        self._endpoint = endpoint
        self._ca_file = ca_file
        self._timeout = timeout
        self._tls: SSLContext | None = None
        self._process = os.getpid()
        self._idle: deque[Connection] = deque()
        # Nobody has to close a client. Not __del__: in a cycle of garbage the sockets could go first, and complain.
        weakref.finalize(self, _close_all, self._idle).atexit = False

    def take(self) -> Connection:
        """An idle connection that is still open, or a new one."""
        if self._process != os.getpid():
            self.close()  # only this process's hold on them; the parent's goes on
            self._process = os.getpid()
        while True:
            try:
                connection = self._idle.pop()  # the one used last: the others can age and go
            except IndexError:
                return Connection.open(self._endpoint, self._context(), self._timeout)
            if connection.idle():
                return connection
            connection.close()

    def give(self, connection: Connection, *, keep: bool) -> None:
        """Take a connection back: for another request if keep says so, or for good."""
        if keep and len(self._idle) < _MAX_IDLE and connection.own():
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Drop idle connections. Requests under way go on."""
        _close_all(self._idle)

    def _context(self) -> SSLContext | None:
        if self._endpoint.tls and self._tls is None:
            import ssl  # some builds of Python have none, and most users need none

            try:
                self._tls = ssl.create_default_context(cafile=self._ca_file)
            except OSError as error:
                raise Invalid(
                    f"the certificates in {self._ca_file} cannot be used: {error.strerror or error}"
                ) from error
        return self._tls


def _close_all(connections: deque[Connection]) -> None:
    while True:
        try:
            connections.pop().close()
        except IndexError:
            return
