"""Several datasets as one, by shares.

    both = penstock.mix({"a@3": 0.7, "b@1": 0.3})

The sequence of a mixture is made of blocks. Each block has exactly its share of samples of
each dataset, in a random order. Each dataset is gone through in its own order, epoch after
epoch, and not begun again before all of its samples were used. So a small dataset comes
round often and a large one seldom, and every position is computed by itself.

An epoch of a mixture is as long as all datasets together, in whole blocks; the next goes on
where it ended.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.client import Client
from penstock.dataset import Dataset, Identity, Ordering, Sample
from penstock.errors import Invalid, NotFound, SampleError
from penstock.order import Order, Policy

if TYPE_CHECKING:
    from penstock.selection import Selection

__all__ = ["Mixture", "mix"]


def mix(
    shares: Mapping[str | Dataset, float], *, block: int = 1000, epoch: int | None = None, client: Client | None = None
) -> Mixture:
    """Mix datasets, or selections of them, by shares.

    block is after how many samples the shares are met exactly; epoch is how many samples an epoch has, about as
    many as all datasets together if it is not given.
    """
    from penstock.opening import open

    parts = [(open(ds, client=client) if isinstance(ds, str) else ds, float(share)) for ds, share in shares.items()]
    return Mixture(parts, block, epoch)


class Mixture(Dataset):
    """Several datasets. Samples are numbered through: those of the first, then those of the second, and so on."""

    def __init__(self, parts: Sequence[tuple[Dataset, float]], block: int, epoch: int | None) -> None:
        if not parts or any(share <= 0 for _, share in parts) or any(len(ds) == 0 for ds, _ in parts):
            raise Invalid("a mixture needs datasets with samples, and shares above zero")
        if block < len(parts):
            raise Invalid(f"a block of {block} cannot have samples of {len(parts)} datasets")
        self.parts = [ds for ds, _ in parts]
        self.counts = _apportion([share for _, share in parts], block)
        self.block = block
        self.starts = [0]
        for ds in self.parts:
            self.starts.append(self.starts[-1] + len(ds))
        self.epoch = epoch or max(self.starts[-1] // block, 1) * block
        self.name = "+".join(ds.name for ds in self.parts)
        self.version = 0

    def __repr__(self) -> str:
        return f"<{self}: {len(self):,} samples>"

    def __str__(self) -> str:
        return "a mixture of " + " and ".join(f"{c}/{self.block} {ds}" for ds, c in zip(self.parts, self.counts))

    def __len__(self) -> int:
        return self.starts[-1]

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(f for ds in self.parts for f in ds.fields))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c for ds in self.parts for c in ds.columns))

    @property
    def classes(self) -> tuple[str, ...]:
        """Those of the datasets, if all have the same."""
        first = self.parts[0].classes
        return first if all(ds.classes == first for ds in self.parts) else ()

    def _part(self, i: int) -> tuple[int, int]:
        part = bisect.bisect_right(self.starts, i) - 1
        return part, i - self.starts[part]

    def read(self, indices: Sequence[int], fields: Sequence[str] | None) -> list[Sample | SampleError]:
        """One request for each dataset."""
        samples: list[Any] = [None] * len(indices)
        whose: dict[int, list[int]] = {}
        for at, i in enumerate(indices):
            whose.setdefault(self._part(i)[0], []).append(at)
        for part, places in whose.items():
            ds, start = self.parts[part], self.starts[part]
            wanted = None if fields is None else [f for f in fields if f in ds.fields + ds.columns]
            for at, sample in zip(places, ds.read([indices[at] - start for at in places], wanted)):
                if isinstance(sample, dict):
                    sample["__dataset__"] = part
                samples[at] = sample
        return samples

    def key(self, i: int) -> str:
        part, i = self._part(self._checked([i])[0])
        return self.parts[part].key(i)

    def find(self, key: str) -> int:
        for ds, start in zip(self.parts, self.starts):
            try:
                return start + ds.find(key)
            except NotFound:
                continue
        raise NotFound(f"{self} has no sample {key!r}")

    def number(self, i: int) -> tuple[int, int]:
        part, i = self._part(i)
        return self.parts[part].number(i)

    @property
    def identity(self) -> Identity:
        parts = [ds.identity for ds in self.parts]
        text = (
            repr([(p["logical"], p["selection"], c) for p, c in zip(parts, self.counts)]) + f"{self.block} {self.epoch}"
        )
        logical = hashlib.sha256(text.encode()).hexdigest()
        return Identity(dataset=self.name, version=self.version, logical=logical, selection="")

    def ordering(self, policy: Policy, seed: int) -> Ordering:
        return _Blocks(self, policy, seed)

    def select(self, what: Any) -> Selection:
        raise Invalid("a mixture has no parts with shares of their own: select from the datasets, then mix")

    def split(self, *shares: float, seed: int = 0) -> tuple[Selection, ...]:
        raise Invalid("a mixture has no parts with shares of their own: split the datasets, then mix")


class _Blocks(Ordering):
    """The sequence of a mixture. It counts positions over all epochs."""

    def __init__(self, mixture: Mixture, policy: Policy, seed: int) -> None:
        self.length = mixture.epoch
        self._block, self._counts, self._starts = mixture.block, mixture.counts, mixture.starts
        self._orders = [
            ds.ordering(_part_of(policy, count, mixture.block), seed)
            for ds, count in zip(mixture.parts, mixture.counts)
        ]
        # A block's seats belong to the datasets one after the other.
        self._ends = [sum(self._counts[: part + 1]) for part in range(len(self._counts))]
        self._turns = _turns(self._counts) if policy.kind == "none" else None
        self._facts = {"samples": mixture.block, "chunk": 1, "seed": seed, "policy": "full"}
        self._facts["dataset"] = int.from_bytes(bytes.fromhex(mixture.identity["logical"][:16]), "little")

    def read(self, epoch: int, positions: range) -> list[int]:
        blocks: dict[int, list[tuple[int, int]]] = {}
        uses: list[list[int]] = [[] for _ in self._orders]  # of each dataset: its positions over all epochs
        places: list[list[int]] = [[] for _ in self._orders]
        for at, position in enumerate(positions):
            block, place = divmod(epoch * self.length + position, self._block)
            if block not in blocks:
                blocks[block] = self._seated(block)
            part, turn = blocks[block][place]
            uses[part].append(block * self._counts[part] + turn)
            places[part].append(at)
        samples = [0] * len(positions)
        for part, order in enumerate(self._orders):
            for at, sample in zip(places[part], _at(order, uses[part])):
                samples[at] = self._starts[part] + sample
        return samples

    def _seated(self, block: int) -> list[tuple[int, int]]:
        """Whose turn it is at each place of a block, and which of its turns."""
        seats = self._turns or Order(**self._facts, epoch=block).read(0, self._block)  # type: ignore[arg-type]
        taken = [0] * len(self._counts)
        found = []
        for seat in seats:
            part = bisect.bisect_right(self._ends, seat)
            found.append((part, taken[part]))
            taken[part] += 1
        return found


def _part_of(policy: Policy, count: int, block: int) -> Policy:
    """A dataset's share of the window: all together keep its size."""
    if policy.kind != "window":
        return policy
    return Policy("window", max(policy.resident * count // block, 1))


def _turns(counts: Sequence[int]) -> list[int]:
    """Without a shuffle, who sits at each place of a block: as even as can be, each dataset in its order."""
    due = sorted(((2 * k + 1) / count, part, k) for part, count in enumerate(counts) for k in range(count))
    return [sum(counts[:part]) + k for _, part, k in due]


def _at(order: Ordering, uses: list[int]) -> list[int]:
    """The samples at positions counted over all epochs. Those of one epoch are read as one stretch, for speed."""
    samples: dict[int, int] = {}
    by_epoch: dict[int, list[int]] = {}
    for use in uses:
        epoch, position = divmod(use, order.length)
        by_epoch.setdefault(epoch, []).append(position)
    for epoch, positions in by_epoch.items():
        first, last = min(positions), max(positions) + 1
        if last - first > 8 * len(positions):
            found = [order.read(epoch, range(p, p + 1))[0] for p in positions]
        else:
            stretch = order.read(epoch, range(first, last))
            found = [stretch[p - first] for p in positions]
        for position, sample in zip(positions, found):
            samples[epoch * order.length + position] = sample
    return [samples[use] for use in uses]


def _apportion(shares: Sequence[float], block: int) -> list[int]:
    """How many seats of a block each gets: the largest remainders get one more, and everybody at least one."""
    total = sum(shares)
    exact = [share / total * block for share in shares]
    counts = [max(int(value), 1) for value in exact]
    order = sorted(range(len(shares)), key=lambda i: exact[i] - int(exact[i]), reverse=True)
    at = 0
    while sum(counts) < block:
        counts[order[at % len(order)]] += 1
        at += 1
    while sum(counts) > block:
        counts[counts.index(max(counts))] -= 1
    return counts
