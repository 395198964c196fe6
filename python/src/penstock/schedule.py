"""Who gets which samples of which batch: a pure function, so that ranks agree without talking.

A global batch is the next stretch of positions in the epoch. Rank r of n gets every n-th
of them, beginning with the r-th. All ranks get the same number of batches, always.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.dataset import Ordering
from penstock.errors import Invalid

__all__ = ["PADS", "Schedule", "Share"]

PADS = ("drop", "repeat", "mask")


@dataclass(frozen=True)
class Share:
    """What a rank gets of a global batch."""

    samples: list[int]
    positions: list[int]
    real: list[bool] | None  #: with pad="mask", which of them are not there only to fill the batch


class Schedule:
    """The batches of one rank."""

    def __init__(
        self, ordering: Ordering, *, global_batch: int, dp_rank: int, dp_size: int, drop_last: bool, pad: str
    ) -> None:
        if pad not in PADS:
            raise Invalid(f"pad is one of {', '.join(PADS)}, not {pad!r}")
        if dp_size < 1 or not 0 <= dp_rank < dp_size:
            raise Invalid(f"dp_rank {dp_rank} of dp_size {dp_size}: ranks are counted from 0")
        if global_batch < 1 or global_batch % dp_size:
            raise Invalid(f"a global batch of {global_batch} cannot be divided among {dp_size} ranks")
        self.ordering = ordering
        self.global_batch, self.dp_rank, self.dp_size, self.pad = global_batch, dp_rank, dp_size, pad
        self.full, self.rest = divmod(ordering.length, global_batch)
        if pad != "drop":
            self.last = global_batch if self.rest else 0
        else:  # as many as all ranks can have alike
            self.last = 0 if drop_last else self.rest // dp_size * dp_size
        if len(self) == 0:
            raise Invalid(
                f"{ordering.length} samples are less than one global batch of {global_batch}: take a smaller one, or "
                'drop_last=False, or pad="repeat"'
            )

    def __len__(self) -> int:
        return self.full + (self.last > 0)

    def share(self, epoch: int, step: int) -> Share:
        """What the rank gets of a batch."""
        if not 0 <= step < len(self):
            raise IndexError(f"there is no batch {step} in an epoch of {len(self)}")
        start, length = step * self.global_batch, self.ordering.length
        count = self.global_batch if step < self.full else self.last
        positions = range(start + self.dp_rank, start + count, self.dp_size)
        if start + count <= length:
            real = [True] * len(positions) if self.pad == "mask" else None
            return Share(self.ordering.read(epoch, positions), list(positions), real)
        # What fills the last batch comes from the beginning of the epoch.
        wrapped = [p % length for p in positions]
        here = range(positions.start, length, self.dp_size)
        samples = self.ordering.read(epoch, here) if here else []
        samples += [self.ordering.read(epoch, range(p, p + 1))[0] for p in wrapped[len(here) :]]
        return Share(samples, wrapped, [p < length for p in positions] if self.pad == "mask" else None)
