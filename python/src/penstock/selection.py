"""Some samples of a dataset: chosen by number, mask or pattern, or split off by a seed.

A selection is a recipe, so that it pickles small; which samples it stands for is worked
out once in each process. Its samples are numbered from 0; sample["__index__"] stays the
number in the whole version.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Iterable, Sequence
from itertools import compress
from operator import index as as_index
from typing import Any

from penstock.dataset import Dataset, Identity, OneOrder, Ordering, Sample
from penstock.errors import Invalid, NotFound, SampleError
from penstock.order import Order, Policy

__all__ = ["Selection", "select", "split"]


class Selection(Dataset):
    """Samples of another dataset, in an order of their own."""

    def __init__(self, parent: Dataset, recipe: tuple[Any, ...]) -> None:
        self.parent = parent
        self._recipe = recipe
        self._chosen: array[int] | None = None
        self._hash: str | None = None
        self._total: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_chosen": None}

    def __repr__(self) -> str:
        return f"<{len(self):,} samples of {self.parent}>"

    def __str__(self) -> str:
        return f"a selection of {self.parent}"

    @property
    def numbers(self) -> array[int]:
        """The numbers of the samples in the parent."""
        if self._chosen is None:
            self._chosen = self._choose()
        return self._chosen

    def _choose(self) -> array[int]:
        kind, *rest = self._recipe
        if kind == "numbers":
            chosen: array[int] = rest[0]
            return chosen
        if kind == "keys":
            return array("I", self.parent._matching(rest[0]))
        seed, start, end = rest
        # A permutation of the numbers, keyed by the seed and the samples: shares are exact to the sample.
        order = Order(samples=len(self.parent), chunk=1, dataset=self._word, seed=seed, policy="full")
        return array("I", sorted(order.read(start, end - start)))

    @property
    def _word(self) -> int:
        return self.parent.number(0)[0] if len(self.parent) else 0

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.parent.name

    @property
    def version(self) -> int:  # type: ignore[override]
        return self.parent.version

    def __len__(self) -> int:
        if self._recipe[0] == "split":
            return int(self._recipe[3] - self._recipe[2])
        return len(self.numbers)

    @property
    def fields(self) -> tuple[str, ...]:
        return self.parent.fields

    @property
    def columns(self) -> tuple[str, ...]:
        return self.parent.columns

    @property
    def classes(self) -> tuple[str, ...]:
        return self.parent.classes

    def read(self, indices: Sequence[int], fields: Sequence[str] | None) -> list[Sample | SampleError]:
        numbers = self.numbers
        return self.parent.read([numbers[i] for i in indices], fields)

    def key(self, i: int) -> str:
        return self.parent.key(self.numbers[self._checked([i])[0]])

    def find(self, key: str) -> int:
        number = self.parent.find(key)
        try:
            return self.numbers.index(number)
        except ValueError:
            raise NotFound(f"{self} has no sample {key!r}") from None

    def number(self, i: int) -> tuple[int, int]:
        return self.parent.number(self.numbers[i])

    @property
    def identity(self) -> Identity:
        if self._hash is None:
            numbers = self.numbers
            if sys.byteorder != "little":
                numbers = array("I", numbers)
                numbers.byteswap()
            above = self.parent.identity["selection"]
            self._hash = hashlib.sha256(above.encode() + b"\0" + numbers.tobytes()).hexdigest()
        return Identity({**self.parent.identity, "selection": self._hash})

    @property
    def chunk(self) -> int:
        """How many consecutive samples are a chunk: as many as in the whole."""
        return self.parent.chunk

    def sizes(self, indices: Sequence[int] | None = None) -> int:
        """How many bytes the fields of some samples have, or of all."""
        if indices is not None:
            numbers = self.numbers
            return self.parent.sizes([numbers[i] for i in indices])
        if self._total is None:
            step = 1 << 16
            self._total = sum(self.sizes(range(at, min(at + step, len(self)))) for at in range(0, len(self), step))
        return self._total

    def ordering(self, policy: Policy, seed: int) -> Ordering:
        total = self.sizes() if policy.kind == "window" else None
        return OneOrder(len(self), self.chunk, total, self._word, seed, policy)


def select(parent: Dataset, what: Iterable[int] | Iterable[bool] | str) -> Selection:
    """What Dataset.select returns."""
    if isinstance(what, str):
        return Selection(parent, ("keys", what))
    values: list[Any] = getattr(what, "tolist", lambda: list(what))()
    if values and all(isinstance(value, bool) for value in values):
        if len(values) != len(parent):
            raise Invalid(f"a mask of {len(values)} does not fit {len(parent)} samples")
        return Selection(parent, ("numbers", array("I", compress(range(len(values)), values))))
    return Selection(parent, ("numbers", array("I", parent._checked(values))))


def split(parent: Dataset, shares: Sequence[float], seed: int) -> tuple[Selection, ...]:
    """What Dataset.split returns."""
    if not shares or any(not 0 < share < 1 for share in shares) or sum(shares) > 1 + 1e-9:
        raise Invalid(f"shares are above 0 and below 1, and together at most 1, not {shares}")
    seed = as_index(seed)
    if not 0 <= seed < 1 << 64:
        raise Invalid(f"seed {seed} is not from 0 to 2^64-1")
    n, ends, reached = len(parent), [0], 0.0
    for share in shares:
        reached += share
        ends.append(min(round(reached * n), n))
    if reached < 1 - 1e-9:
        ends.append(n)
    ends[-1] = n
    return tuple(Selection(parent, ("split", seed, start, end)) for start, end in zip(ends, ends[1:]))
