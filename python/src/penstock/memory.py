"""Memory for what is received, used again when nobody looks at it any more.

A fresh piece of 128 KiB costs about as much as bringing 128 KiB through the socket:
the allocator gives large pieces back to the system, which hands them out again page by
page, each cleared, and Python clears them once more. So pieces that were handed out are
remembered, and handed out again when the last view of them is gone. That can be asked
without trusting anybody: a bytearray cannot change its size while it is looked at.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable

__all__ = ["Memory", "gather"]

_SMALLEST = 32 << 10  # below it the allocator does as well
_LOOKS = 2  # pieces that are looked at before a new one is made


class Memory:
    """Pieces of memory for one client. It may be used by many threads, and has no lock to leave behind at a fork."""

    def __init__(self, limit: int = 32 << 20, largest: int = 4 << 20) -> None:
        self._limit = limit  # bytes that are remembered; what is handed out beyond that is used once
        self._largest = largest  # of the pieces that are remembered
        self._known: dict[int, deque[bytearray]] = {}  # by size, the one handed out longest ago first
        self._reuse = sys.implementation.name == "cpython"  # others may let one that is looked at change its size

    def __reduce__(self) -> tuple[type[Memory], tuple[int, int]]:
        return Memory, (self._limit, self._largest)

    def take(self, size: int) -> memoryview:
        """So many bytes of memory that nobody else has. What is in them is not said."""
        if not self._reuse or not _SMALLEST <= size <= self._largest:
            return memoryview(bytearray(size))
        rounded = _round(size)
        known = self._known.get(rounded)
        if known is None:
            known = self._room(rounded)
        for _ in range(_LOOKS):
            try:
                piece = known.popleft()
            except IndexError:
                break
            # Nobody else finds it before it is back, and then it is looked at.
            view = memoryview(piece)[:size] if _free(piece) else None
            known.append(piece)
            if view is not None:
                return view
        piece = bytearray(rounded)
        view = memoryview(piece)[:size]
        if self._remembered() + rounded <= self._limit:
            known.append(piece)
        return view

    def forget(self) -> None:
        """Remember nothing. What is looked at lives on; the rest is given back."""
        self._known = {}

    def _room(self, size: int) -> deque[bytearray]:
        """A place for pieces of a new size. If there is no room left, those of sizes gone by must go."""
        if self._remembered() + size > self._limit:
            self.forget()
        return self._known.setdefault(size, deque())

    def _remembered(self) -> int:
        return sum(size * len(pieces) for size, pieces in self._known.copy().items())


def _free(piece: bytearray) -> bool:
    try:
        piece.append(piece.pop())
    except BufferError:
        return False
    return True


def _round(size: int) -> int:
    """The next of eight steps between two powers of two, so that pieces fit more than one size."""
    step = 1 << max(size.bit_length() - 4, 0)
    return -(-size // step) * step


def gather(size: int, trust: int, fill: Callable[[memoryview], None]) -> bytearray:
    """So many bytes as fill gives them. Beyond trust, memory is taken only as they come: a size that is a lie costs little."""
    data = bytearray(min(size, trust))
    at = 0
    while True:
        with memoryview(data) as view, view[at:] as rest:
            fill(rest)
        at = len(data)
        if at == size:
            return data
        data += bytes(min(size - at, at))
