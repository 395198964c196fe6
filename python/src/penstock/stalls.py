"""Where the consumer's time goes: each wait for a batch, charged to what was done meanwhile.

Only time that the consumer really waits is counted. A batch that is waited for has a
history: it stood in a queue, its order was computed, it was fetched, decoded, transformed,
put together and brought over. The stretch of the wait that falls into a stage is charged
to that stage; what no faster stage would shorten is not charged to it.
"""

from __future__ import annotations

import time
from typing import Any

from penstock.engine import Made

__all__ = ["Stalls"]

_STAGES = ("queue", "order", "fetch", "decode", "transform", "collate", "transfer")


class Stalls:
    """Adds up the waits of one consumer."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self._begun: float | None = None
        self._last = 0.0
        self._batches = 0
        self._stages = dict.fromkeys(_STAGES, 0.0)
        self._longest = 0.0
        self._first = 0.0

    def add(self, asked: float, made: Made) -> None:
        """Note a batch that was asked for then, and has just come."""
        now = time.monotonic()
        if self._begun is None:
            self._begun = asked
        self._last = now
        self._batches += 1
        if self._batches == 1:
            self._first = now - asked
        self._longest = max(self._longest, now - asked)
        at = asked
        for stage, end in (("queue", made.begun), *made.stages, ("transfer", now)):
            if end > at:
                self._stages[stage] += end - at
                at = end

    def report(self) -> dict[str, Any]:
        """All in seconds: how long it went on, how much of it was waited, and for what."""
        elapsed = 0.0 if self._begun is None else self._last - self._begun
        waited = sum(self._stages.values())
        return {
            "batches": self._batches,
            "elapsed": elapsed,
            "waited": waited,
            "share": waited / elapsed if elapsed else 0.0,
            "first": self._first,
            "longest": self._longest,
            "stages": dict(self._stages),
        }
