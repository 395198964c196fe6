"""Datasets for tests."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import penstock

WORDS = ("cat", "dog", "owl")


def sample(i: int) -> dict[str, Any]:
    """What sample i holds: different sizes, a field and a column that not all have."""
    dice = random.Random(i)
    made: dict[str, Any] = {"bin": dice.randbytes(dice.randrange(1, 3000)), "cls": WORDS[i % 3], "n": i, "x": i / 4}
    if i % 5 == 0:
        made["json"] = b'{"i": %d}' % i
    if i % 4 == 0:
        made["caption"] = f"number {i} é"
    return made


def key(i: int) -> str:
    return f"{WORDS[i % 3]}/{i:05}"


def write(to: Path, count: int, **options: Any) -> Path:
    """A dataset of many small shards and chunks, in a directory."""
    with penstock.create("pets", to=to, **{"shard_size": 64 << 10, "chunk_size": 16 << 10, **options}) as w:
        for i in range(count):
            w.add(key(i), sample(i))
    return to


def same(found: dict[str, Any], i: int) -> bool:
    """Whether a sample that was read is the one that was written."""
    wanted = {**sample(i), "__key__": key(i), "__index__": i}
    wanted["cls"] = WORDS.index(wanted["cls"])
    return found == wanted
