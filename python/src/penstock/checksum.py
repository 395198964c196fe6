"""CRC-32 of what was read, as fast as this machine has it.

Every byte that comes is checked, and zlib takes longer for that than the kernel for bringing it: 45
to 65 µs for 128 KiB, where libdeflate, which has the processor multiply, takes 7. That is installed
with libtiff, so nearly everywhere where images are decoded; elsewhere zlib does it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, NamedTuple
from zlib import crc32

__all__ = ["crc32s"]

_SMALL = 2 << 10  # below it a call of the library costs more than it saves
_LONG = 32 << 10  # from here on other threads may run meanwhile
_LIBRARY = "libdeflate.0.dylib" if sys.platform == "darwin" else "libdeflate.so.0"


def crc32s(data: memoryview, begins: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """The CRC-32 of each of some pieces of data."""
    size = len(data) // max(len(sizes), 1)
    fast = None if size < _SMALL or data.readonly else _library()
    if fast is None:
        return [crc32(data[begin : begin + size]) for begin, size in zip(begins, sizes)]
    start = fast.address(data)
    function = fast.short if size < _LONG else fast.long
    return list(map(function, repeat(0), [start + begin for begin in begins], sizes))


class _Library(NamedTuple):
    short: Callable[[int, int, int], int]  # keeps Python's lock
    long: Callable[[int, int, int], int]
    address: Callable[[memoryview], int]


@functools.cache
def _library() -> _Library | None:
    """libdeflate, if it is there and does what it should."""
    try:
        import ctypes

        short: Any = ctypes.PyDLL(_LIBRARY).libdeflate_crc32
        long: Any = ctypes.CDLL(_LIBRARY).libdeflate_crc32
    except (ImportError, OSError, AttributeError):
        return None
    for function in short, long:
        function.restype = ctypes.c_uint32
        function.argtypes = (ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t)
        if function(0, b"penstock", 8) != crc32(b"penstock"):
            return None
    return _Library(short, long, lambda data: ctypes.addressof(ctypes.c_char.from_buffer(data)))
