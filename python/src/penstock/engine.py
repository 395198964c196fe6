"""Makes a batch: order, fetch, decode, transform, collate.

An engine is a pure function of epoch and step. It pickles, so that any worker makes any
batch; none of them keeps anything that matters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from penstock.chance import chance, takes_chance
from penstock.dataset import Dataset
from penstock.decode import Decoder
from penstock.errors import Invalid, SampleError
from penstock.order import _derive
from penstock.schedule import Schedule, Share

__all__ = ["Collate", "Engine", "Made", "Stage"]

Collate = Callable[[list[Any]], Any]
Stage = tuple[str, float]  # its name, and when it ended on the monotonic clock

_ATTEMPTS = 16  # samples that are tried in place of one that cannot be read
# What is not the fault of a sample: others would fail as well.
_GENERAL = frozenset(("Unavailable", "Busy", "Denied", "Canceled", "Internal", "Invalid"))


class Made(NamedTuple):
    """A batch, and how it came about."""

    batch: Any
    begun: float
    stages: list[Stage]
    replaced: list[SampleError]  #: samples that could not be read, and others were taken for


class Engine:
    """Makes the batches of one rank."""

    def __init__(
        self,
        dataset: Dataset,
        schedule: Schedule,
        *,
        seed: int,
        decoder: Decoder,
        transform: Callable[..., Any] | None,
        collate: Collate,
        collate_mask: Collate,
        fields: Sequence[str] | None,
        substitute: bool,
    ) -> None:
        self.dataset, self.schedule, self.seed = dataset, schedule, seed
        self.decoder, self.transform, self.collate = decoder, transform, collate
        self.collate_mask = collate_mask  # never the user's own, which knows nothing of masks
        self.fields = None if fields is None else list(fields)
        self.substitute = substitute
        self._chancy = transform is not None and takes_chance(transform)

    def make(self, epoch: int, step: int) -> Made:
        """Make a batch."""
        begun = time.monotonic()
        share = self.schedule.share(epoch, step)
        ordered = time.monotonic()
        found = self.dataset.read(share.samples, self.fields)
        fetched = time.monotonic()
        samples: list[Any] = []
        replaced: list[SampleError] = []
        transforming = 0.0
        for at in range(len(found)):
            sample, i = found[at], share.samples[at]
            found[at] = None  # type: ignore[call-overload]  # decoded samples are many times larger: no longer than needed
            sample, i = self._decoded(sample, i, share, at, epoch, replaced)
            if share.real is not None:
                sample["__mask__"] = share.real[at]
            if self.transform is not None:
                start = time.monotonic()
                sample = self._transformed(sample, i, epoch)
                transforming += time.monotonic() - start
            samples.append(sample)
        prepared = time.monotonic()
        batch = self.collate(samples)
        if share.real is not None and not (isinstance(batch, dict) and "__mask__" in batch):
            batch = batch, self.collate_mask(share.real)
        stages = [("order", ordered), ("fetch", fetched), ("decode", prepared - transforming), ("transform", prepared)]
        return Made(batch, begun, [*stages, ("collate", time.monotonic())], replaced)

    def _decoded(
        self, sample: Any, i: int, share: Share, at: int, epoch: int, replaced: list[SampleError]
    ) -> tuple[dict[str, Any], int]:
        """A sample, decoded, and its number; another in its place if it cannot be and that is allowed."""
        key = 0
        for attempt in range(_ATTEMPTS + 1):
            if attempt:
                # The same one for everybody who makes this batch.
                key = _derive(key if attempt > 1 else _derive(_derive(share.positions[at], epoch), self.seed), attempt)
                position = key % self.schedule.ordering.length
                i = self.schedule.ordering.read(epoch, range(position, position + 1))[0]
                sample = self.dataset.read([i], self.fields)[0]
            if not isinstance(sample, SampleError):
                sample = self._decode(sample)
            if not isinstance(sample, SampleError):
                return sample, i
            if not self.substitute or sample.kind in _GENERAL or attempt == _ATTEMPTS:
                raise sample
            replaced.append(sample)
        raise AssertionError

    def _decode(self, sample: dict[str, Any]) -> dict[str, Any] | SampleError:
        field = ""
        try:
            for field, value in sample.items():
                if field[:2] != "__":
                    sample[field] = self.decoder(field, value)
            return sample
        except Exception as error:
            return self._error(sample, f"field {field} cannot be decoded", error, "Corrupt")

    def _transformed(self, sample: dict[str, Any], i: int, epoch: int) -> Any:
        assert self.transform is not None
        try:
            if not self._chancy:
                return self.transform(sample)
            word, number = self.dataset.number(i)
            return self.transform(sample, chance(self.seed, epoch, word, number))
        except Exception as error:
            raise self._error(sample, "the transform failed", error, "Internal") from error

    def _error(self, sample: dict[str, Any], what: str, error: Exception, kind: str) -> SampleError:
        found = SampleError(
            f"{what}: {type(error).__name__}: {error}",
            kind=kind,
            dataset=self.dataset.name,
            version=self.dataset.version or None,
            index=sample.get("__index__"),
            key=str(sample.get("__key__", "")),
        )
        found.__cause__ = error
        return found


def check_fields(dataset: Dataset, fields: Sequence[str] | None) -> None:
    """Raise Invalid now, not in a worker, if there is no such field."""
    there = dataset.fields + dataset.columns
    for field in fields or ():
        if field not in there:
            raise Invalid(f"{dataset} has no field or column {field!r}: it has {', '.join(there)}")
