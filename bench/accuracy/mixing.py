"""How well batches are mixed, from their labels."""

from __future__ import annotations

from typing import Any

import numpy
import torch

CLASSES = 10
STRETCH = 32  # batches: 4096 samples


class Mixing:
    """Counts the classes of an epoch's batches."""

    def __init__(self) -> None:
        self._counts: list[Any] = []

    def add(self, labels: torch.Tensor) -> None:
        self._counts.append(numpy.bincount(labels.numpy(), minlength=CLASSES))

    def report(self) -> dict[str, float]:
        """Different classes in a batch, the share of the largest, and how uneven the classes are.

        Unevenness is chi-squared over its degrees of freedom: 1 on average if samples are drawn at random, more if
        neighbours are alike. It is given for batches and for stretches of 32 batches.
        """
        counts = numpy.stack(self._counts)
        size = counts[0].sum()
        shares = counts.max(1) / size
        whole = len(counts) // STRETCH * STRETCH
        stretches = counts[:whole].reshape(-1, STRETCH, CLASSES).sum(1) if whole else counts.sum(0)[None]
        return {
            "classes_mean": round(float((counts > 0).sum(1).mean()), 2),
            "classes_worst": int((counts > 0).sum(1).min()),
            "largest_mean": round(float(shares.mean()), 4),
            "largest_worst": round(float(shares.max()), 4),
            "uneven": round(uneven(counts), 2),
            "uneven_long": round(uneven(stretches), 2),
        }


def uneven(counts: Any) -> float:
    """Chi-squared of each row over its degrees of freedom, on average."""
    expected = counts.sum(1, keepdims=True) / CLASSES
    return float((((counts - expected) ** 2 / expected).sum(1) / (CLASSES - 1)).mean())
