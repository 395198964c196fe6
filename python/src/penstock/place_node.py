"""Pieces that lie in objects of a node: one request for a batch of them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

from penstock.batch import read_wanted
from penstock.client import Client
from penstock.errors import Corrupt, Invalid, PenstockError
from penstock.names import check_bucket, encode_key
from penstock.place import Pieces
from penstock.wire import Item

__all__ = ["Objects"]

_HAS_RANGE, _HAS_BUCKET, _HAS_CRC32 = 2, 4, 8
_range = struct.Struct("<qq")
_range_crc = struct.Struct("<qqI")
_crc = struct.Struct("<I")


class _Shard(NamedTuple):
    """What every reference to a piece of a shard has in common, as it goes over the wire."""

    name: str
    checked: bytes  # what comes before the range if a CRC-32 follows
    unchecked: bytes  # and if none does
    bucket: bytes  # what stands between range and CRC-32: a bucket of its own, or nothing


class Objects:
    """Shards that are objects under a folder of a bucket."""

    def __init__(self, client: Client, bucket: str, folder: str) -> None:
        self.client, self.bucket, self.folder = client, bucket, folder
        self._shards: dict[int, _Shard | PenstockError] = {}

    def __str__(self) -> str:
        return f"{self.bucket}/{self.folder}"

    def __getstate__(self) -> tuple[Client, str, str]:
        return self.client, self.bucket, self.folder

    def __setstate__(self, state: tuple[Client, str, str]) -> None:
        self.client, self.bucket, self.folder = state
        self._shards = {}

    def close(self) -> None:
        """Drop idle connections. The place stays usable."""
        self.client.close()

    def read(self, pieces: Pieces, name: Callable[[int], str]) -> list[Item]:
        """Ask for pieces, with the CRC-32 they must have: the node checks it, and so do we."""
        known = self._shards
        for shard in set(pieces.shards).difference(known):
            known[shard] = self._shard(name(shard))
        items: list[Item | None] = [None] * len(pieces.shards)
        asked: list[int] = []
        for i, (shard, size) in enumerate(zip(pieces.shards, pieces.sizes)):
            found = known[shard]
            if isinstance(found, PenstockError):
                items[i] = found
            elif size == 0:  # on the wire a length of 0 reaches to the end
                crc = pieces.checksums[i]
                items[i] = memoryview(b"") if not crc else Corrupt(f"nothing cannot have the CRC-32 {crc:08x}")
            else:
                asked.append(i)
        if asked:
            wanted = _Wanted(self.bucket, known, pieces, asked)
            came = read_wanted(self.client._transport, f"from {self.bucket}", wanted)
            for i, item in zip(asked, chain.from_iterable(came)):
                items[i] = item
        return items  # type: ignore[return-value]  # none is None any more

    def _shard(self, name: str) -> _Shard | PenstockError:
        key, bucket = self.folder + name, b""
        try:
            if name.startswith("/"):
                of, slash, key = name[1:].partition("/")
                check_bucket(of)
                bucket = struct.pack("<H", len(of)) + of.encode()
            raw = encode_key(key)
        except Invalid as error:
            return Corrupt(f"a shard cannot be called {name!r}: {error}")
        flags = _HAS_RANGE | (_HAS_BUCKET if bucket else 0)
        head = struct.pack("<H", len(raw)) + raw
        return _Shard(name, bytes([flags | _HAS_CRC32]) + head, bytes([flags]) + head, bucket)


class _Wanted:
    """Some pieces of shards that are known."""

    def __init__(
        self, bucket: str, shards: dict[int, _Shard | PenstockError], pieces: Pieces, chosen: list[int]
    ) -> None:
        self._bucket, self._shards, self._pieces, self._chosen = bucket, shards, pieces, chosen

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, part: slice) -> _Wanted:
        return _Wanted(self._bucket, self._shards, self._pieces, self._chosen[part])

    def encode(self) -> bytes:
        bucket = self._bucket.encode()
        out = [b"pstkref1", struct.pack("<IH", len(self._chosen), len(bucket)), bucket]
        shards, offsets, sizes, checksums = self._pieces
        known, append, pack = self._shards, out.append, _range_crc.pack
        for i in self._chosen:
            shard = known[shards[i]]
            assert isinstance(shard, _Shard)
            crc = checksums[i]
            if crc is not None and not shard.bucket:
                append(shard.checked)
                append(pack(offsets[i], sizes[i], crc))
                continue
            append(shard.unchecked if crc is None else shard.checked)
            append(_range.pack(offsets[i], sizes[i]) + shard.bucket)
            if crc is not None:
                append(_crc.pack(crc))
        return b"".join(out)

    def name(self, index: int) -> str:
        shard = self._shards[self._pieces.shards[self._chosen[index]]]
        return shard.name if isinstance(shard, _Shard) else "a shard"

    def check(self, index: int, size: int, crc: int) -> str:
        i = self._chosen[index]
        expected = self._pieces.checksums[i]
        if size == self._pieces.sizes[i] and (expected is None or expected == crc):
            return ""
        if expected is None:
            return f"{size} bytes came and not {self._pieces.sizes[i]}"
        return f"{size} bytes with CRC-32 {crc:08x} came, not {self._pieces.sizes[i]} with {expected:08x}"

    @property
    def checked(self) -> bool:
        return True
