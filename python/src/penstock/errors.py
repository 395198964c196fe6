"""What can go wrong, by kind.

Every error of this package is a PenstockError of one kind from a closed list: the
same list, with the same names, that the node answers with. A kind says what the
caller can do about it. Where Python has an exception for the same thing the class
is one of those too, so that code which knows nothing of Penstock catches it:

    NotFound     FileNotFoundError    there is no such bucket, object or member
    Exists       FileExistsError      it is there already, and that was ruled out
    Stale                             the condition on the ETag does not hold
    Denied       PermissionError      the token gives no right to it
    Invalid      ValueError           the request makes no sense; repeating it will not help
    Busy                              too much is going on; repeat later
    Corrupt                           the bytes are not the ones that were written
    Unavailable  ConnectionError      a node or disk that is needed cannot be used now
    Canceled                          the node gave up on a request that came too slowly
    Internal                          a fault of Penstock's, or no Penstock at all

Timeout is an Unavailable that is also a TimeoutError. NotFound is not a KeyError,
because that prints its message in quotes.

Errors travel between processes: they pickle with all they carry, and can be made
from a message alone, which is how torch hands on those of its workers.
"""

from __future__ import annotations

import errno as _errno
from collections.abc import Mapping
from typing import Any

__all__ = [
    "Busy",
    "Canceled",
    "Corrupt",
    "Denied",
    "Exists",
    "Internal",
    "Invalid",
    "NotFound",
    "PenstockError",
    "PutBatchError",
    "SampleError",
    "Stale",
    "Timeout",
    "Unavailable",
    "of_kind",
]


class PenstockError(Exception):
    """An error of Penstock.

    kind is the name of its kind. attempts is how often the request was sent, 0 if it
    was not. retry_after is how many seconds the node asked to wait before another, 0
    if it said nothing.
    """

    kind: str = "Internal"
    attempts: int = 0
    retry_after: float = 0.0

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        # Not OSError's, which would look for an errno among the arguments.
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message,), self.__dict__


class NotFound(PenstockError, FileNotFoundError):
    """There is no such bucket, object or member."""

    kind = "NotFound"
    errno = _errno.ENOENT


class Exists(PenstockError, FileExistsError):
    """It is there already, and that was ruled out."""

    kind = "Exists"
    errno = _errno.EEXIST


class Stale(PenstockError):
    """The condition on the ETag does not hold."""

    kind = "Stale"


class Denied(PenstockError, PermissionError):
    """The token gives no right to it."""

    kind = "Denied"
    errno = _errno.EACCES


class Invalid(PenstockError, ValueError):
    """The request makes no sense; repeating it will not help."""

    kind = "Invalid"


class Busy(PenstockError):
    """Too much is going on; repeat later."""

    kind = "Busy"


class Corrupt(PenstockError):
    """The bytes are not the ones that were written."""

    kind = "Corrupt"


class Unavailable(PenstockError, ConnectionError):
    """A node or disk that is needed cannot be used now."""

    kind = "Unavailable"


class Timeout(Unavailable, TimeoutError):
    """The node was waited for long enough."""

    errno = _errno.ETIMEDOUT


class Canceled(PenstockError):
    """The node gave up on a request that came too slowly."""

    kind = "Canceled"


class Internal(PenstockError):
    """A fault of Penstock's, or no Penstock at all."""


class PutBatchError(PenstockError):
    """Some objects of a put_batch were not stored; the others are.

    failed says why, by key. The kind is theirs if they all have the same one.
    """

    def __init__(self, message: str = "", *, failed: Mapping[str, PenstockError] | None = None) -> None:
        self.failed = dict(failed or {})
        if not message and self.failed:
            key, error = next(iter(self.failed.items()))
            message = f"{key}: {error}"
            if len(self.failed) > 1:
                message = f"{len(self.failed)} objects were not stored, among them {message}"
        super().__init__(message)
        kinds = {error.kind for error in self.failed.values()}
        if len(kinds) == 1:
            self.kind = kinds.pop()


class SampleError(PenstockError):
    """One sample of a dataset cannot be read. It says which, and where its bytes lie.

    The kind is that of what went wrong below.
    """

    def __init__(
        self,
        message: str = "",
        *,
        kind: str = "Internal",
        dataset: str = "",
        version: int | None = None,
        index: int | None = None,
        key: str = "",
        shard: str = "",
        offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.dataset = dataset
        self.version = version
        self.index = index
        self.key = key
        self.shard = shard
        self.offset = offset

    def __str__(self) -> str:
        where = ", ".join(
            f"{name} {value}"
            for name, value in (
                ("sample", self.index),
                ("key", self.key),
                ("shard", self.shard),
                ("offset", self.offset),
            )
            if value is not None and value != ""
        )
        name = self.dataset if self.version is None else f"{self.dataset}@{self.version}"
        place = ": ".join(filter(None, (name, where)))
        return f"{place}: {self.message}" if place else self.message


# In the order of their numbers on the wire, which begin with 1.
KINDS: tuple[type[PenstockError], ...] = (
    Internal,
    NotFound,
    Exists,
    Stale,
    Denied,
    Invalid,
    Busy,
    Corrupt,
    Unavailable,
    Canceled,
)

_by_name = {cls.kind: cls for cls in KINDS}


def of_kind(kind: str) -> type[PenstockError]:
    """The class of a kind. A name that a later version has added is Internal."""
    return _by_name.get(kind, Internal)
