"""CRC-32 by whatever this machine has: the same as zlib's."""

from __future__ import annotations

import random
from zlib import crc32

import pytest

from penstock import checksum

SIZES = [0, 1, 4096, 0, 100_000, 7, 65_536]


@pytest.mark.parametrize("library", [True, False])
@pytest.mark.parametrize("scale", [1, 40])
@pytest.mark.parametrize("readonly", [True, False])
def test_as_zlib(library: bool, scale: int, readonly: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not library:
        monkeypatch.setattr(checksum, "_library", lambda: None)
    sizes = [size // scale for size in SIZES]
    begins = [3 + sum(sizes[:i]) for i in range(len(sizes))]
    data = memoryview(bytearray(random.Random(scale).randbytes(3 + sum(sizes))))
    view = data.toreadonly() if readonly else data
    expected = [crc32(data[begin : begin + size]) for begin, size in zip(begins, sizes)]
    assert checksum.crc32s(view, begins, sizes) == expected
    assert checksum.crc32s(view, [], []) == []
    assert data.tobytes() == random.Random(scale).randbytes(3 + sum(sizes))


def test_a_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksum, "_LIBRARY", "libnobodyhasthis.so.0")
    checksum._library.cache_clear()
    try:
        assert checksum._library() is None
        assert checksum.crc32s(memoryview(bytearray(10_000)), [0], [10_000]) == [crc32(bytes(10_000))]
    finally:
        checksum._library.cache_clear()
