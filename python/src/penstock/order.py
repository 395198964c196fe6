"""Which sample of a dataset comes when.

An order is a pure function of a dataset's size, a seed, an epoch and a policy. It
reads nothing and keeps nothing: every process that asks gets the same sequence, and a
run resumes from one integer. Nodes compute the same in Go (``internal/order``); the
algorithm is in ``docs/internals/order.md``, and ``testdata/vectors/order`` holds what
both must give. It can never change: another one would get another name.

Every position is computed by itself, and so is its inverse: when a sample is used. Bulk
reads use numpy where it is installed, with the same result.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, overload

from penstock.errors import Invalid

__all__ = ["ALGORITHM", "MAX_SAMPLES", "Order", "Policy", "Quality", "ranges"]

ALGORITHM = "penstock-1"  #: names the algorithm in training state
MAX_SAMPLES = 1 << 48  #: the largest number of samples, in a dataset and in a chunk

_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_ROOT = 0x6B636F74736E6570  # "penstock", its first letter lowest
_ROUNDS = 10
_MAX_LANES = (1 << 32) - 1

# The purposes of keys.
_SAMPLES, _CHUNKS, _ROWS, _TURNS, _PHASE = range(1, 6)

_UNITS = {
    "TiB": 1 << 40,
    "GiB": 1 << 30,
    "MiB": 1 << 20,
    "KiB": 1 << 10,
    "TB": 10**12,
    "GB": 10**9,
    "MB": 10**6,
    "KB": 10**3,
    "B": 1,
}
_DIGITS = frozenset("0123456789")

# Up to so many numpy costs more than it saves.
_FEW = 32


@dataclass(frozen=True)
class Policy:
    """How much of a dataset an order mixes: ``none``, ``full`` or ``window:SIZE``.

    Of a window a consumer keeps about ``resident`` bytes of samples at a time.
    """

    kind: str = "none"
    resident: int = 0

    def __post_init__(self) -> None:
        if self.kind not in ("none", "full", "window"):
            raise Invalid(f"{self.kind!r} is not a kind of policy: none, full and window are")
        if self.kind != "window" and self.resident != 0:
            raise Invalid(f"policy {self.kind} keeps nothing, but {self.resident} bytes were given")
        if self.kind == "window" and not 0 < self.resident < 1 << 63:
            raise Invalid(f"a window of {self.resident} bytes: it has more than 0 and less than 2^63")

    @classmethod
    def parse(cls, text: str) -> Policy:
        """Read none, full or window:SIZE, with a size as 64MiB, 1.5GiB or 2GB."""
        if text in ("none", "full"):
            return cls(text)
        if not text.startswith("window:"):
            raise Invalid(f"{text!r} is not a shuffle policy: write none, full or window:SIZE, as in window:2GiB")
        size = text[len("window:") :]
        resident = _parse_size(size)
        if not 0 < resident < 1 << 63:
            raise Invalid(
                f"{size!r} is not the size of a window: write window:SIZE with more than 0 and less than"
                " 2^63 bytes, as in window:64MiB, window:1.5GiB or window:2GB"
            )
        return cls("window", resident)

    def __str__(self) -> str:
        """Return what parse reads; equal policies have equal strings."""
        if self.kind != "window":
            return self.kind
        for name, unit in list(_UNITS.items())[:4]:
            if self.resident % unit == 0:
                return f"window:{self.resident // unit}{name}"
        return f"window:{self.resident}B"


def _parse_size(text: str) -> int:
    """Return a size in bytes, without the fraction of one; 0 if it is not a size."""
    unit = 1
    for name, value in _UNITS.items():
        if text.endswith(name):
            text, unit = text[: -len(name)], value
            break
    whole, point, fraction = text.partition(".")
    if len(text) > 24 or not whole or not _DIGITS.issuperset(whole):
        return 0
    if point and (not fraction or not _DIGITS.issuperset(fraction) or unit == 1):
        return 0
    scale: int = 10 ** len(fraction)
    return int(whole + fraction) * unit // scale


def _mix(z: int) -> int:
    z ^= z >> 30
    z = z * 0xBF58476D1CE4E5B9 & _WORD
    z ^= z >> 27
    z = z * 0x94D049BB133111EB & _WORD
    return z ^ z >> 31


def _derive(key: int, word: int) -> int:
    return _mix(key + word + _GOLDEN & _WORD)


@dataclass(frozen=True)
class _Permutation:
    """Bijections of the numbers below size, one for each key."""

    size: int
    side: int

    @classmethod
    def of_size(cls, size: int) -> _Permutation:
        side = math.isqrt(size - 1) + 1 if size else 0
        return cls(size, side + side % 2)

    def at(self, key: int, v: int) -> int:
        """Return where v goes."""
        side = self.side
        while True:
            left, right = divmod(v, side)
            for k in range(key, key + (_ROUNDS << 32), 1 << 32):
                left, right = right, (left + ((_mix(k + right & _WORD) >> 32) * side >> 32)) % side
            v = left * side + right
            if v < self.size:
                return v

    def inverse(self, key: int, v: int) -> int:
        """Return what goes to v."""
        side = self.side
        while True:
            left, right = divmod(v, side)
            for k in range(key + (_ROUNDS - 1 << 32), key - 1, -1 << 32):
                left, right = (right - ((_mix(k + left & _WORD) >> 32) * side >> 32)) % side, left
            v = left * side + right
            if v < self.size:
                return v

    def all(self, np: Any, key: Any, v: Any) -> Any:
        """Return where all of an array go; key is a number or an array of them."""
        v = self._once(np, key, v)
        outside = np.flatnonzero(v >= np.uint64(self.size))
        while outside.size > _FEW:
            again = self._once(np, key if isinstance(key, int) else key[outside], v[outside])
            v[outside] = again
            outside = outside[again >= np.uint64(self.size)]
        for i in outside:
            v[i] = self.at(key if isinstance(key, int) else int(key[i]), int(v[i]))
        return v

    def _once(self, np: Any, key: Any, v: Any) -> Any:
        side, half = np.uint64(self.side), np.uint64(32)
        left, right = v // side, v % side
        for number in range(_ROUNDS):
            if isinstance(key, int):
                k = right + np.uint64(key + (number << 32) & _WORD)
            else:
                k = right + (key + np.uint64(number << 32))
            left += (_mix_all(np, k) >> half) * side >> half
            left -= (left >= side) * side
            left, right = right, left
        return left * side + right


def _mix_all(np: Any, z: Any) -> Any:
    z = z ^ (z >> np.uint64(30))
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


class Order(Sequence[int]):
    """The sequence of samples of one epoch: ``order[position]`` is a sample's number.

    dataset is the identity of the version (0 will do), chunk the number of samples in
    one, total_bytes the size of all samples together as the manifest has it, which only
    a window needs. policy is a Policy or its text.
    """

    __slots__ = ("_chunk", "_samples", "_sequence")

    def __init__(
        self,
        *,
        samples: int,
        chunk: int,
        total_bytes: int | None = None,
        dataset: int = 0,
        seed: int = 0,
        epoch: int = 0,
        policy: Policy | str = "none",
    ) -> None:
        policy = Policy.parse(policy) if isinstance(policy, str) else policy
        if total_bytes is None:
            if policy.kind == "window":
                raise Invalid(f"{policy} needs total_bytes: how many samples fit into it depends on their size")
            total_bytes = 0
        # An integer of numpy would overflow.
        samples, chunk, total_bytes = index(samples), index(chunk), index(total_bytes)
        dataset, seed, epoch = index(dataset), index(seed), index(epoch)
        if not 0 <= samples <= MAX_SAMPLES:
            raise Invalid(f"an order of {samples} samples: 0 to {MAX_SAMPLES} are possible")
        if not 1 <= chunk <= MAX_SAMPLES:
            raise Invalid(f"chunks of {chunk} samples: 1 to {MAX_SAMPLES} are possible")
        words = {"total_bytes": total_bytes, "dataset": dataset, "seed": seed, "epoch": epoch}
        for name, word in words.items():
            if not 0 <= word <= _WORD:
                raise Invalid(f"{name} is {word}: it must be from 0 to 2^64-1")
        key = _derive(_derive(_derive(_ROOT, dataset), seed), epoch)
        self._samples, self._chunk = samples, chunk
        self._sequence: _Written | _Mixed | _Lanes
        if policy.kind == "none" or samples == 0:
            self._sequence = _Written()
        elif policy.kind == "full" or policy.resident >= total_bytes:
            self._sequence = _Mixed(samples, key)
        else:
            self._sequence = _Lanes(samples, chunk, total_bytes, policy.resident, key)

    def __len__(self) -> int:
        return self._samples

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> list[int]: ...
    def __getitem__(self, place: int | slice) -> int | list[int]:
        if isinstance(place, slice):
            start, stop, step = place.indices(self._samples)
            if step == 1:
                return self.read(start, max(stop - start, 0))
            places = range(start, stop, step)
            np = _numpy() if len(places) > _FEW and step > 0 else None
            if np is not None:  # what one of several ranks reads: every n-th
                samples: list[int] = self._sequence.all(np, np.arange(start, stop, step, dtype=np.uint64)).tolist()
                return samples
            return [self._sequence.at(position) for position in places]
        position = index(place) + (self._samples if place < 0 else 0)
        if not 0 <= position < self._samples:
            raise IndexError(f"no position {place} in an order of {self._samples}")
        return self._sequence.at(position)

    def __iter__(self) -> Iterator[int]:
        for position in range(0, self._samples, 4096):
            yield from self.read(position, 4096)

    def __contains__(self, sample: object) -> bool:
        return isinstance(sample, int) and 0 <= sample < self._samples

    def read(self, position: int, count: int) -> list[int]:
        """Return the samples from a position on: fewer than count at the end."""
        position, count = index(position), index(count)
        if position < 0 or count < 0:
            raise Invalid(f"{count} samples from position {position}: both must not be negative")
        end = min(position + count, self._samples)
        np = _numpy() if end - position > _FEW else None
        return self._read(np, position, end)

    def _read(self, np: Any, position: int, end: int) -> list[int]:
        if np is None:
            return [self._sequence.at(p) for p in range(position, end)]
        samples: list[int] = self._sequence.all(np, np.arange(position, end, dtype=np.uint64)).tolist()
        return samples

    def position(self, sample: int) -> int:
        """Return where in the epoch a sample is used, which is once."""
        sample = index(sample)
        if not 0 <= sample < self._samples:
            raise IndexError(f"no sample {sample} in an order of {self._samples}")
        return self._sequence.position(sample)

    def index(self, value: int, start: int = 0, stop: int | None = None) -> int:
        """Return the position of a sample, as a list would."""
        if value in self:
            position = self.position(value)
            if position in range(self._samples)[start:stop]:
                return position
        raise ValueError(f"sample {value} is not there")

    def count(self, value: object) -> int:
        """Return 1 for a sample of the dataset, 0 for anything else."""
        return int(value in self)

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return -(-self._samples // self._chunk)

    @property
    def width(self) -> int:
        """The number of chunks in use at a time: a batch is well mixed up to a quarter of it."""
        if isinstance(self._sequence, _Lanes):
            return self._sequence.lanes
        return self.chunks if isinstance(self._sequence, _Mixed) else min(self._samples, 1)

    def quality(self, sizes: Sequence[int], of: Callable[[int], int], *, batch: int, limit: int = 0) -> Quality:
        """Return how many different classes there are in a batch.

        sizes has the samples of each class, of the class of each sample; ranges makes
        both. Whole batches are looked at, all of them or as many as limit.
        """
        batch = min(batch, self._samples)
        if batch <= 0:
            return Quality(0, 0.0, 0, 0.0)
        every = self._samples // batch
        batches = min(every, max(limit, 2)) if limit else every
        counts = [
            len({of(sample) for sample in self.read(_chosen(i, batches, every) * batch, batch)}) for i in range(batches)
        ]
        return Quality(batches, sum(counts) / batches, min(counts), _expected(sizes, self._samples, batch))


class _Written:
    """The sequence without shuffling."""

    def at(self, position: int) -> int:
        return position

    def all(self, np: Any, positions: Any) -> Any:
        return positions

    def position(self, sample: int) -> int:
        return sample


class _Mixed:
    """The full shuffle."""

    def __init__(self, samples: int, key: int) -> None:
        self.samples, self.key = _Permutation.of_size(samples), _derive(key, _SAMPLES)

    def at(self, position: int) -> int:
        return self.samples.at(self.key, position)

    def all(self, np: Any, positions: Any) -> Any:
        return self.samples.all(np, self.key, positions)

    def position(self, sample: int) -> int:
        return self.samples.inverse(self.key, sample)


class _Lanes:
    """A window. The names are those of internal/order/lanes.go, which says why."""

    def __init__(self, samples: int, chunk: int, total_bytes: int, resident: int, key: int) -> None:
        chunks = -(-samples // chunk)
        self.samples, self.chunk = samples, chunk
        self.last = samples - (chunks - 1) * chunk
        self.chunks = _Permutation.of_size(chunks)
        allowed = 2 * samples * resident // ((chunk + 1) * total_bytes)
        self.lanes = max(min(allowed, chunks // 2, _MAX_LANES), 1)
        self.chunk_key, self.row_key, self.turn_key = (_derive(key, p) for p in (_CHUNKS, _ROWS, _TURNS))
        self.short = self.chunks.inverse(self.chunk_key, chunks - 1)
        self.rows, self.longer = divmod(samples, self.lanes)
        stride = chunks
        while math.gcd(stride, self.lanes) != 1:
            stride += 1
        self.stride, self.phase = stride % self.lanes, _derive(key, _PHASE) % chunk
        self.row, self.last_row = _Permutation.of_size(self.lanes), _Permutation.of_size(self.longer)
        self.turns, self.last_turns = _Permutation.of_size(chunk), _Permutation.of_size(self.last)

    def at(self, position: int) -> int:
        row, place = divmod(position, self.lanes)
        permutation = self.last_row if row == self.rows else self.row
        begin, length, shift = self.lane(permutation.at(_derive(self.row_key, row), place))
        rank, turn = self.rank(begin + (shift + row) % length)
        chunk = self.chunks.at(self.chunk_key, rank)
        permutation = self.last_turns if chunk == self.chunks.size - 1 else self.turns
        return chunk * self.chunk + permutation.at(_derive(self.turn_key, chunk), turn)

    def position(self, sample: int) -> int:
        chunk, offset = divmod(sample, self.chunk)
        permutation = self.last_turns if chunk == self.chunks.size - 1 else self.turns
        turn = permutation.inverse(_derive(self.turn_key, chunk), offset)
        rank = self.chunks.inverse(self.chunk_key, chunk)
        spot = rank * self.chunk - (self.chunk - self.last if rank > self.short else 0) + turn
        if spot < self.longer * (self.rows + 1):
            number = spot // (self.rows + 1)
        else:
            number = (spot - self.longer) // self.rows
        begin, length, shift = self.lane(number)
        row = (spot - begin - shift) % length
        permutation = self.last_row if row == self.rows else self.row
        return row * self.lanes + permutation.inverse(_derive(self.row_key, row), number)

    def lane(self, number: int) -> tuple[int, int, int]:
        """Return where in the line a lane begins, how long it is and where row 0 is."""
        begin = number * self.rows + min(number, self.longer)
        length = self.rows + (number < self.longer)
        turn = number * self.stride % self.lanes * self.chunk // self.lanes + self.phase
        return begin, length, (turn - self.rank(begin)[1]) % self.chunk % length

    def rank(self, spot: int) -> tuple[int, int]:
        """Return which chunk of the line a spot belongs to, and the turn."""
        if spot >= self.short * self.chunk + self.last:
            spot += self.chunk - self.last
        return divmod(spot, self.chunk)

    def all(self, np: Any, positions: Any) -> Any:
        """Return the samples at an array of positions: what at does, step by step for all."""
        u = np.uint64
        row, place = positions // u(self.lanes), positions % u(self.lanes)
        key = _derive_all(np, self.row_key, row)
        number = np.empty_like(place)
        for permutation, here in (
            (self.row, np.flatnonzero(row < u(self.rows))),
            (self.last_row, np.flatnonzero(row == u(self.rows))),
        ):
            if here.size:
                number[here] = permutation.all(np, key[here], place[here])

        begin = number * u(self.rows) + np.minimum(number, u(self.longer))
        length = u(self.rows) + (number < u(self.longer)).astype(u)
        turn = number * u(self.stride) % u(self.lanes) * u(self.chunk) // u(self.lanes) + u(self.phase)
        shift = (turn + u(self.chunk) - self._rank_all(np, begin)[1]) % u(self.chunk) % length
        rank, turn = self._rank_all(np, begin + (shift + row) % length)

        chunk = self.chunks.all(np, self.chunk_key, rank)
        key = _derive_all(np, self.turn_key, chunk)
        last = u(self.chunks.size - 1)
        for permutation, here in (
            (self.turns, np.flatnonzero(chunk != last)),
            (self.last_turns, np.flatnonzero(chunk == last)),
        ):
            if here.size:
                turn[here] = permutation.all(np, key[here], turn[here])
        return chunk * u(self.chunk) + turn

    def _rank_all(self, np: Any, spot: Any) -> tuple[Any, Any]:
        u = np.uint64
        behind = spot >= u(self.short * self.chunk + self.last)
        spot = spot + behind * u(self.chunk - self.last)
        return spot // u(self.chunk), spot % u(self.chunk)


def _derive_all(np: Any, key: int, words: Any) -> Any:
    return _mix_all(np, words + np.uint64(key + _GOLDEN & _WORD))


@functools.cache
def _numpy() -> Any:
    """Return numpy, or None where it is not installed: asking again would cost each time."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


@dataclass(frozen=True)
class Quality:
    """How many different classes there are in a batch."""

    batches: int  #: that were looked at
    mean: float  #: classes in a batch
    worst: int  #: in the batch that has the fewest
    full: float  #: what a batch drawn from all samples has on average


def ranges(samples: int, classes: int) -> tuple[list[int], Callable[[int], int]]:
    """Pretend that samples are sorted by class: the hardest case, and it needs no labels.

    Returns the sizes of the classes and the function from sample to class.
    """
    classes = min(max(classes, 1), samples)
    each, longer = divmod(samples, classes) if classes else (0, 0)
    first = longer * (each + 1)

    def of(sample: int) -> int:
        return longer + (sample - first) // each if sample >= first else sample // (each + 1)

    return [each + (number < longer) for number in range(classes)], of


def _chosen(i: int, batches: int, every: int) -> int:
    each, longer = divmod(every, batches)
    if i == 0:
        return 0
    if i == batches - 1:
        return every - 1
    return i * each + min(i, longer) + _mix(i + _GOLDEN & _WORD) % (each + (i < longer))


def _expected(sizes: Iterable[int], samples: int, batch: int) -> float:
    known: dict[int, float] = {}
    total = 0.0
    for size in sizes:
        if size not in known:
            known[size] = 1 - _missed(size, samples, batch)
        total += known[size]
    return total


def _missed(size: int, samples: int, batch: int) -> float:
    few, many = min(size, batch), max(size, batch)
    chance = 1.0
    for i in range(few):
        if samples - i <= many or chance == 0:
            return 0.0
        chance *= (samples - many - i) / (samples - i)
    return chance
