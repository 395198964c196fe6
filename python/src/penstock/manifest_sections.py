"""The parts of a manifest that are in use: views of its sections, checked block by block when they are first used."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter, lt
from typing import Any

from penstock.errors import Corrupt
from penstock.manifest_format import BLOCK


class Blocks:
    """The checksums of all blocks, and which blocks were found good."""

    __slots__ = ("_data", "_end", "_head", "_sums", "good", "name")

    def __init__(self, data: memoryview, head: int, end: int, name: str) -> None:
        # A private copy: nobody may change what everything else is judged by.
        self._sums = memoryview(bytes(data[end:])).cast("I")
        self._data = data
        self._head = head
        self._end = end
        self.name = name
        self.good = bytearray(len(self._sums))

    def check(self, blocks: Iterable[int], what: str) -> None:
        """Make sure that blocks are as they were written."""
        for block in blocks:
            if not self.good[block]:
                start, end = max(block * BLOCK, self._head), min((block + 1) * BLOCK, self._end)
                with self._data[start:end] as view:
                    if zlib.crc32(view) != self._sums[block]:
                        raise Corrupt(f"{self.name}: its {what} are damaged, between bytes {start} and {end}")
                self.good[block] = 1


class Area:
    """One section: numbers or bytes that are checked when they are first used."""

    __slots__ = ("_blocks", "_done", "_first", "_last", "_start", "_what", "_width", "view")

    def __init__(self, blocks: Blocks, view: memoryview, start: int, width: int, what: str) -> None:
        self.view = view
        self._blocks = blocks
        self._start = start
        self._width = width
        self._what = what
        self._first = start // BLOCK
        self._last = (start + len(view) * width - 1) // BLOCK
        self._done = len(view) == 0

    def __getitem__(self, i: int) -> int:
        if not self._done:
            block = (self._start + i * self._width) // BLOCK
            if not self._blocks.good[block]:
                self._blocks.check((block,), self._what)
        return self.view[i]

    def pick(self, indices: Sequence[int], get: Callable[[Any], tuple[int, ...]]) -> tuple[int, ...]:
        """Return the numbers at indices, which get takes out of a sequence."""
        if not self._done:
            start, width = self._start, self._width
            self._blocks.check({(start + i * width) // BLOCK for i in indices}, self._what)
            self._done = self._blocks.good.find(0, self._first, self._last + 1) < 0
        return get(self.view)

    def part(self, start: int, end: int) -> memoryview:
        """Return what lies between two indices."""
        if not self._done and start < end:
            first = (self._start + start * self._width) // BLOCK
            last = (self._start + end * self._width - 1) // BLOCK
            self._blocks.check(range(first, last + 1), self._what)
        return self.view[start:end]

    def parts(self, starts: Sequence[int], ends: Sequence[int]) -> list[memoryview]:
        """Return what lies between each two indices, none of which is empty."""
        if not self._done:
            origin, width = self._start, self._width
            for start, end in zip(starts, ends):
                first, last = (origin + start * width) // BLOCK, (origin + end * width - 1) // BLOCK
                self._blocks.check(range(first, last + 1), self._what)
            self._done = self._blocks.good.find(0, self._first, self._last + 1) < 0
        view = self.view
        return [view[start:end] for start, end in zip(starts, ends)]

    def all(self) -> memoryview:
        """Return everything."""
        self.part(0, len(self.view))
        self._done = True
        return self.view.toreadonly()


class Strings:
    """Strings that lie one behind the other."""

    __slots__ = ("_content", "_ends", "_name")

    def __init__(self, ends: Area, content: Area, name: str) -> None:
        self._ends = ends
        self._content = content
        self._name = name

    def raw(self, i: int) -> memoryview:
        start, end = self._ends[i - 1] if i else 0, self._ends[i]
        if not start <= end <= len(self._content.view):
            raise Corrupt(f"{self._name}: a string cannot reach from {start} to {end}")
        return self._content.part(start, end)

    def text(self, i: int) -> str:
        try:
            return str(self.raw(i), "utf-8")
        except UnicodeDecodeError as error:
            raise Corrupt(f"{self._name}: string {i} is not UTF-8") from error

    def texts(self, indices: Sequence[int]) -> list[str]:
        """As text, for many at once."""
        if not indices:
            return []
        before = [i - 1 if i else 0 for i in indices]
        ends = self._ends.pick(indices, getter(indices))
        starts = self._ends.pick(before, getter(before))
        if 0 in indices:
            starts = tuple(start if i else 0 for i, start in zip(indices, starts))
        if all(map(lt, starts, ends)) and max(ends) <= len(self._content.view):
            try:
                return [str(part, "utf-8") for part in self._content.parts(starts, ends)]
            except UnicodeDecodeError:
                pass
        return [self.text(i) for i in indices]  # an empty one, or one that cannot be


def check_number(i: int, length: int, of: str) -> None:
    if not 0 <= i < length:
        raise IndexError(f"{of} has no sample {i}: it has {length}")


def check_numbers(indices: Sequence[int], length: int, of: str) -> Sequence[int]:
    """Make sure that all are numbers of samples: a view would take -1 for the last one."""
    if not isinstance(indices, (list, tuple, range)):
        indices = indices.tolist() if hasattr(indices, "tolist") else list(indices)
    if indices:
        check_number(min(indices), length, of)
        check_number(max(indices), length, of)
    return indices


def getter(indices: Sequence[int]) -> Callable[[Any], tuple[int, ...]]:
    """Return what takes the elements at indices out of a view, by a loop in C."""
    if len(indices) == 1:
        only = indices[0]
        return lambda view: (view[only],)
    return itemgetter(*indices)
