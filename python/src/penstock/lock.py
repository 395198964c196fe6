"""Holds a directory for one writer. Whatever becomes of its process, the lock is gone with it."""

from __future__ import annotations

import contextlib
import os
import weakref

from penstock.errors import Busy, Unavailable

__all__ = ["Lock"]

_open: dict[object, int] = {}  # the descriptors of this process's locks


class Lock:
    """A lock on a directory, until it is released or nobody refers to it. Busy if another has it."""

    def __init__(self, directory: str) -> None:
        key = object()
        self.release = weakref.finalize(self, _release, key)
        self.release.atexit = False
        try:
            _take(directory, key)
        except BlockingIOError:
            self.release()
            raise Busy(f"another writer is at work in {directory}") from None
        except OSError as error:
            self.release()
            reason = error.strerror or error
            raise Unavailable(
                f"{directory} cannot be locked against other writers: {reason}. Its file system may have no locks: "
                f"write to another one, and move the directory"
            ) from error


def _take(directory: str, key: object) -> None:
    try:
        import fcntl
    except ImportError:
        return _take_file(directory, key)
    _open[key] = fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _take_file(directory: str, key: object) -> None:
    """As Windows has it: a directory cannot be locked, but a file in it can."""
    import msvcrt

    _open[key] = fd = os.open(os.path.join(directory, ".lock"), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    except PermissionError as error:  # what it says if another has it
        raise BlockingIOError(*error.args) from None


def _release(key: object) -> None:
    fd = _open.pop(key, None)
    if fd is None:
        return
    # Closing is not enough: a child that is just being forked may have the same lock open.
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def _forked() -> None:
    """A child must not hold what its parent has locked, or else the lock outlives a parent that is killed."""
    for fd in _open.values():
        os.close(fd)
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
