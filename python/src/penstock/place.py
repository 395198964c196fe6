"""Where the bytes of samples are: files of a directory, or objects of a node.

A place is asked for pieces, many at once: ranges of shards whose length and checksum
the manifest knows. It gives their bytes in the order they were asked for, or the error
in its place; bytes with another checksum are an error and never given out.

Places open files and connections when they are first used, in the process that uses
them. They may be used by many threads, survive a fork, and pickle as their address.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from penstock.checksum import crc32s
from penstock.errors import Corrupt, Denied, NotFound, PenstockError, Unavailable
from penstock.memory import Memory
from penstock.wire import Item

__all__ = ["Directory", "Pieces", "Place", "shard_path"]

# Pieces so close to one another are read at once: the headers between them cost less
# than a system call. What is read at once fits into memory that is used again.
_NEAR = 8 << 10
_ONCE = 4 << 20

_NONBLOCK = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_CLOSE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class Pieces(NamedTuple):
    """What is asked for: of each piece the shard, where it lies, and its CRC-32, None if nobody knows it."""

    shards: Sequence[int]
    offsets: Sequence[int]
    sizes: Sequence[int]
    checksums: Sequence[int | None]


class Place(Protocol):
    """Gives pieces. name says what a shard is called in a manifest."""

    def read(self, pieces: Pieces, name: Callable[[int], str]) -> list[Item]:
        """The bytes of each piece, or why there are none. What raises is about all of them."""

    def close(self) -> None:
        """Drop what is open. The place stays usable."""


def shard_path(directory: str, name: str) -> str:
    """The path of a shard. The name comes from a manifest, and that from anybody: a
    relative one must stay inside of the directory. An absolute one stands for itself."""
    if "\0" in name:
        raise Corrupt(f"a shard cannot be called {name!r}")
    if name.startswith("/"):
        return name
    parts = name.split("/")
    strange = sys.platform == "win32" and any(c in name for c in '\\:*?"<>|')
    if strange or any(part in ("", ".", "..") for part in parts):
        raise Corrupt(f"the shard {name!r} would lie outside of {directory}")
    return os.path.join(directory, *parts)


class _File:
    """An open shard. It is closed when nobody refers to it, so that no thread finds it closed, or another in its place."""

    __slots__ = ("__weakref__", "_lock", "fd", "home", "path", "shard")

    def __init__(self, path: str, home: Directory, shard: int) -> None:
        self.fd = -1
        self.path = path
        self.home, self.shard = weakref.ref(home), shard
        self._lock = None if hasattr(os, "preadv") else threading.Lock()
        # What is no file, such as a pipe, would otherwise be waited for here.
        fd = os.open(path, os.O_RDONLY | _NONBLOCK | _CLOSE)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "not a file", path)
        self.fd = fd

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def fill(self, view: memoryview, offset: int) -> int:
        """Read into all of view, or as much as there is. Return how much."""
        at = 0
        while at < len(view):
            if self._lock is None:
                n = os.preadv(self.fd, [view[at:] if at else view], offset + at)
            else:  # Windows: a file has one position, and everybody moves it
                with self._lock:
                    os.lseek(self.fd, offset + at, os.SEEK_SET)
                    data = os.read(self.fd, len(view) - at)
                n = len(data)
                view[at : at + n] = data
            if n == 0:
                break
            at += n
        return at


class Directory:
    """Shards that are files."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._clear()

    def __str__(self) -> str:
        return self.path

    def _clear(self) -> None:
        self._files: dict[int, _File] = {}
        self._memory = Memory(64 << 20)
        self._limit = _open_files()

    def __getstate__(self) -> str:
        return self.path

    def __setstate__(self, path: str) -> None:
        self.path = path
        self._clear()

    def close(self) -> None:
        """Drop what is open. The place stays usable."""
        self._clear()

    def read(self, pieces: Pieces, name: Callable[[int], str]) -> list[Item]:
        """Read pieces in the order they lie, neighbours at once, into one piece of memory."""
        shards, offsets, sizes, _ = pieces
        items: list[Item] = [_EMPTY] * len(shards)
        runs = _runs(pieces)
        left = sum(end - start for start, end, _ in runs)
        slab, used = _EMPTY, 0
        there: dict[int, int] = {}  # the pieces that were read into the slab, and where they begin
        for start, end, run in runs:
            size, shard = end - start, shards[run[0]]
            try:
                file = self._files.get(shard) or self._open(shard, name(shard))
                if size > len(slab) - used:
                    _check(slab, there, pieces, items)
                    slab, used, there = self._room(file, start, size, left), 0, {}
                at, used, left = used, used + size, left - size
                got = file.fill(slab[at:used], start)
            except (OSError, PenstockError) as error:
                failed = _failure(error, name(shard))
                for i in run:
                    items[i] = failed
                continue
            for i in run:
                if offsets[i] + sizes[i] <= start + got:
                    there[i] = at + offsets[i] - start
                else:
                    items[i] = Corrupt(f"{file.path} ends at {start + got}")
        _check(slab, there, pieces, items)
        return items

    def _room(self, file: _File, start: int, size: int, left: int) -> memoryview:
        """Memory for a run of a file, and for others of those that are left if it is small."""
        if size > _ONCE:
            # The manifest may lie about a size, and memory is taken before the bytes are there.
            return self._memory.take(max(min(size, os.fstat(file.fd).st_size - start), 0))
        return self._memory.take(min(max(left, size), _ONCE))

    def _open(self, shard: int, name: str) -> _File:
        path = shard_path(self.path, name)
        try:
            file = _File(path, self, shard)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            while _close_oldest():  # others need files as well: better to open ours again than to fail
                pass
            file = _File(path, self, shard)
        # No lock, so that none is left locked by a fork: at worst two threads open the same file.
        while len(_open_now) >= self._limit and _close_oldest():
            pass
        self._files[shard] = _open_now[next(_serials)] = file
        return file


_EMPTY = memoryview(b"")

# The shards that the process has open, of whatever dataset, the oldest first: many datasets share the files that
# a process may have.
_open_now: weakref.WeakValueDictionary[int, _File] = weakref.WeakValueDictionary()
_serials = itertools.count()


def _close_oldest() -> bool:
    """Have the place that opened it forget the oldest shard. False if there is none, or others are at it."""
    try:
        file = _open_now.pop(next(iter(_open_now)))
    except (StopIteration, KeyError, RuntimeError):
        return False
    home = file.home()
    if home is not None:
        home._files.pop(file.shard, None)
    return True


def _check(slab: memoryview, there: dict[int, int], pieces: Pieces, items: list[Item]) -> None:
    """Give out the pieces that lie in a slab, if they are what they should be. All together: one by one costs more."""
    sizes = [pieces.sizes[i] for i in there]
    for (i, begin), size, crc in zip(there.items(), sizes, crc32s(slab, list(there.values()), sizes)):
        wanted = pieces.checksums[i]
        if wanted is None or crc == wanted:
            items[i] = slab[begin : begin + size]
        else:
            items[i] = Corrupt(f"its bytes have CRC-32 {crc:08x}, not {wanted:08x}: they are damaged")


def _runs(pieces: Pieces) -> list[tuple[int, int, list[int]]]:
    """Pieces that are read at once: from where to where in their shard, and which they are."""
    shards, offsets, sizes, _ = pieces
    keys = [shard << 64 | offset for shard, offset in zip(shards, offsets)]
    runs: list[tuple[int, int, list[int]]] = []
    shard, start, end, run = -1, 0, 0, []  # type: int, int, int, list[int]
    for i in sorted(range(len(keys)), key=keys.__getitem__):
        offset, reach = offsets[i], offsets[i] + sizes[i]
        if shards[i] != shard or offset > end + _NEAR or (reach > end and reach - start > _ONCE):
            if run:
                runs.append((start, end, run))
            shard, start, end, run = shards[i], offset, reach, [i]
        else:
            end = max(end, reach)
            run.append(i)
    if run:
        runs.append((start, end, run))
    return runs


def _failure(error: OSError | PenstockError, shard: str) -> PenstockError:
    """What it means that a file cannot be read."""
    if isinstance(error, PenstockError):
        return error
    path = error.filename or shard
    if isinstance(error, FileNotFoundError):
        return NotFound(f"{path} does not exist")
    kind = Denied if isinstance(error, PermissionError) else Corrupt if error.errno == errno.EINVAL else Unavailable
    return kind(f"{path} cannot be read: {error.strerror or error}")


def _open_files() -> int:
    """How many shards a process keeps open: a part of the files it may have."""
    try:
        import resource
    except ImportError:
        return 128
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4096 if soft == resource.RLIM_INFINITY else max(min(soft // 4, 4096), 16)
