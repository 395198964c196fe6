"""Datasets, for reading: what whole versions, selections and mixtures have in common.

    ds = penstock.open("imagenet@3")
    ds[42]["jpg"]                         # bytes-like
    ds.get([3, 1, 2], fields=["jpg"])     # one request
    train, rest = ds.split(0.9, seed=1)

A sample is a dict: each field as bytes-like, each column as a value, and beside them
"__key__" and "__index__". A field or value that a sample does not have is not in it. Of
a class the value is its number: `ds.classes[sample["cls"]]` is its name.

Datasets open what they need when they first need it, in the process that needs it. They
may be used by many threads, survive a fork, and pickle as what they were opened with.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence
from operator import index as as_index
from typing import TYPE_CHECKING, Any, Literal, overload

from penstock.errors import Invalid, SampleError
from penstock.order import Order, Policy

if TYPE_CHECKING:
    from penstock.explain import Explanation
    from penstock.selection import Selection

__all__ = ["Dataset", "Identity", "OneOrder", "Ordering", "Sample"]

Sample = dict[str, Any]
OnError = Literal["raise", "return"]

_AT_ONCE = 16 << 20  # bytes that an iteration reads at a time
_MAX_AT_ONCE = 1024  # and samples


class Identity(dict[str, Any]):
    """What the state of a training run says about its data: plain, and equal for the same samples."""


class Dataset:
    """What all datasets can do: whole versions, selections of one, mixtures of several."""

    name: str
    version: int

    def __len__(self) -> int:
        raise NotImplementedError

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of what samples have as bytes."""
        raise NotImplementedError

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what samples have as values."""
        raise NotImplementedError

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, by number: of the column `cls`, or of the only one that has classes."""
        raise NotImplementedError

    @overload
    def get(
        self, indices: Iterable[int], fields: Sequence[str] | None = ..., *, on_error: Literal["raise"] = ...
    ) -> list[Sample]: ...

    @overload
    def get(
        self, indices: Iterable[int], fields: Sequence[str] | None = ..., *, on_error: OnError
    ) -> list[Sample | SampleError]: ...

    def get(
        self, indices: Iterable[int], fields: Sequence[str] | None = None, *, on_error: OnError = "raise"
    ) -> list[Any]:
        """Read many samples at once, in the order they are asked for.

        fields are names of fields and columns; all if there are none given. If a sample
        cannot be read its SampleError is raised; with on_error="return" it stands in its
        place. Neighbours share memory: keep bytes(sample["jpg"]) if you keep a few of many.
        """
        if on_error not in ("raise", "return"):
            raise Invalid(f'on_error is "raise" or "return", not {on_error!r}')
        samples = self.read(self._checked(indices), fields)
        if on_error == "raise":
            for sample in samples:
                if isinstance(sample, SampleError):
                    raise sample
        return samples

    def read(self, indices: Sequence[int], fields: Sequence[str] | None) -> list[Sample | SampleError]:
        """As get, for numbers that are known to be good; errors stand in their places."""
        raise NotImplementedError

    def __getitem__(self, i: int) -> Sample:
        return self.get([as_index(i)])[0]

    def __iter__(self) -> Iterator[Sample]:
        """All samples in their order, read many at once."""
        at, count = 0, 16
        while at < len(self):
            some = self.get(range(at, min(at + count, len(self))))
            at += len(some)
            size = sum(len(value) for sample in some for value in sample.values() if isinstance(value, memoryview))
            count = max(min(_AT_ONCE * len(some) // max(size, 1), _MAX_AT_ONCE), 1)
            yield from some

    def key(self, i: int) -> str:
        """The key of a sample."""
        raise NotImplementedError

    def find(self, key: str) -> int:
        """The number of the sample with that key, or NotFound."""
        raise NotImplementedError

    def number(self, i: int) -> tuple[int, int]:
        """The identity of the version a sample belongs to, in 64 bits, and its number there: whatever is
        selected or mixed, these stay the same."""
        raise NotImplementedError

    @property
    def identity(self) -> Identity:
        """What these samples are, for the state of a training run."""
        raise NotImplementedError

    @property
    def chunk(self) -> int:
        """How many consecutive samples are a chunk, the unit of shuffling by a window."""
        raise NotImplementedError

    def sizes(self, indices: Sequence[int] | None = None) -> int:
        """How many bytes the fields of some samples have, or of all."""
        raise NotImplementedError

    def ordering(self, policy: Policy, seed: int) -> Ordering:
        """The sequences of all epochs."""
        raise NotImplementedError

    # Parts of it.

    def select(self, what: Iterable[int] | Iterable[bool] | str) -> Selection:
        """Some of the samples: numbers in the order that is wanted, a mask with one truth for each
        sample, or a pattern of keys such as "cats/*"."""
        from penstock.selection import select

        return select(self, what)

    def split(self, *shares: float, seed: int = 0) -> tuple[Selection, ...]:
        """Parts with these shares of the samples, and the rest. Which sample belongs to which depends on
        its number and the seed alone."""
        from penstock.selection import split

        return split(self, shares, seed)

    def explain(self, **options: Any) -> Explanation:
        """How fast batches come, what limits that, and how well they are mixed. The options are batch_size,
        shuffle, seed, decode, num_workers, and measure: False looks at the mixing only."""
        from penstock.explain import explain

        return explain(self, **options)

    def _checked(self, indices: Iterable[int]) -> Sequence[int]:
        """The numbers as ints, or IndexError. A negative one counts from the end."""
        length = len(self)
        if isinstance(indices, range) and (not indices or (min(indices) >= 0 and max(indices) < length)):
            return indices
        if isinstance(indices, (str, bytes)):
            raise Invalid(f"samples are asked for by their numbers, not {indices!r}; find() has the number of a key")
        numbers: list[int] = indices.tolist() if hasattr(indices, "tolist") else [as_index(i) for i in indices]
        if numbers and (min(numbers) < 0 or max(numbers) >= length):
            numbers = [i + length if i < 0 else i for i in numbers]
            for i in numbers:
                if not 0 <= i < length:
                    raise IndexError(f"{self} has no sample {i}: it has {length}")
        return numbers

    def _matching(self, pattern: str) -> Iterator[int]:
        """The numbers of the samples whose keys match a pattern, rising."""
        match = re.compile(fnmatch.translate(pattern)).match
        return (i for i in range(len(self)) if match(self.key(i)))


class Ordering:
    """The sequences of samples of all epochs, for one policy and seed."""

    length: int  #: samples in an epoch

    def read(self, epoch: int, positions: range) -> list[int]:
        """The samples at some positions of an epoch."""
        raise NotImplementedError


class OneOrder(Ordering):
    """The order of one dataset."""

    def __init__(self, samples: int, chunk: int, total: int | None, word: int, seed: int, policy: Policy) -> None:
        self.length = samples
        self._facts = {"samples": samples, "chunk": chunk, "total_bytes": total, "dataset": word, "seed": seed}
        self._policy = policy
        self._last: tuple[int, Order] | None = None

    def order(self, epoch: int) -> Order:
        """The order of an epoch. The last one is kept: making one costs as much as several positions."""
        last = self._last
        if last is None or last[0] != epoch:
            last = self._last = epoch, Order(**self._facts, epoch=epoch, policy=self._policy)  # type: ignore[arg-type]
        return last[1]

    def read(self, epoch: int, positions: range) -> list[int]:
        return self.order(epoch)[positions.start : positions.stop : positions.step]
