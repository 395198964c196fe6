"""What a manifest is made of: the constants of its bytes, for who reads and who writes them.

docs/internals/manifest.md draws the bytes; package manifest has the same in Go.
"""

from __future__ import annotations

import struct
import zlib

MAGIC = b"PenstMan"
FORMAT = 1
FIXED = struct.Struct("<8s6I5Q2I32s32s")  # up to the description
BLOCK = 1 << 16
ALIGN = 64
MAX_HEAD = BLOCK - ALIGN
NONE = 0xFFFFFFFF  # as a size or shard: the sample has no such field

# The kinds of sections. Those below BY_KEY are the logical part.
KEY_ENDS, KEYS, SIZES, SUMS, VALUES, TEXTS, CLASS_ENDS, PRESENT = range(1, 9)
BY_KEY, BUCKETS, PRINTS, NUMBERS = range(16, 20)
SHARD_OF, OFFSETS, GAPS, LEARNT, SHARD_SIZES, SHARD_FORMS, NAME_ENDS, NAMES, TAG_ENDS, TAGS = range(32, 42)

SECTIONS = {
    KEY_ENDS: "ends of keys",
    KEYS: "keys",
    SIZES: "sizes",
    SUMS: "checksums",
    VALUES: "values",
    TEXTS: "texts",
    CLASS_ENDS: "ends of class names",
    PRESENT: "bits of values that are present",
    BY_KEY: "order by key",
    BUCKETS: "buckets of the hash index",
    PRINTS: "fingerprints of the hash index",
    NUMBERS: "numbers of the hash index",
    SHARD_OF: "shards of samples",
    OFFSETS: "offsets of samples",
    GAPS: "places of further fields",
    LEARNT: "checksums learnt later",
    SHARD_SIZES: "sizes of shards",
    SHARD_FORMS: "formats of shards",
    NAME_ENDS: "ends of shard names",
    NAMES: "shard names",
    TAG_ENDS: "ends of shard tags",
    TAGS: "shard tags",
}

TYPES = {1: "int", 2: "float", 3: "text", 4: "class"}
IN_BYTES, IN_BLOCKS, OWN_SHARD = 1, 2, 3  # how a further field is placed
TAR = 1  # the format of a shard


def aligned(n: int) -> int:
    """Where a section may begin that comes behind n bytes."""
    return -(-n // ALIGN) * ALIGN


def buckets(samples: int) -> int:
    """How many buckets the hash index of so many samples has."""
    return samples // 16 + 1


def hash_key(key: bytes) -> int:
    """The hash of a key in that index: 32 bits. The upper ones choose its bucket, the lower half is its fingerprint."""
    return zlib.crc32(key) * 0x9E3779B1 & 0xFFFFFFFF
