"""Randomness of one sample: the same whoever computes it, and when.

A transform that draws from a generator of its worker gives other results with another
number of workers, or after a resume. So each sample gets a generator of its own, keyed
by seed, epoch and the sample, never by rank or worker.
"""

from __future__ import annotations

import functools
import inspect
import os
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

from penstock.order import _WORD, _derive

__all__ = ["Chance", "chance", "seeded", "takes_chance"]

_ROOT = 0x65636E616863  # "chance", its first letter lowest


class Chance(random.Random):
    """A `random.Random` for one sample. `.numpy` and `.torch` are generators of these libraries, with the same key."""

    key: int  #: 64 bits; seed whatever else needs one with it

    def __init__(self, key: int) -> None:
        super().__init__(key)
        self.key = key

    @functools.cached_property
    def numpy(self) -> Any:
        """A numpy.random.Generator."""
        from numpy.random import PCG64, Generator

        return Generator(PCG64(self.key))

    @functools.cached_property
    def torch(self) -> Any:
        """A torch.Generator."""
        import torch

        return torch.Generator().manual_seed(self.key & _WORD >> 1)

    def __reduce__(self) -> tuple[Any, ...]:
        return Chance, (self.key,)


def chance(seed: int, epoch: int, word: int, sample: int) -> Chance:
    """The generator of a sample: word is the identity of its dataset, in 64 bits."""
    key = _derive(_derive(_derive(_derive(_ROOT, word), seed), epoch), sample)
    return Chance(key)


def takes_chance(transform: Callable[..., Any]) -> bool:
    """Whether a transform is called with the generator as its second argument: it must have one without a default."""
    try:
        parameters = inspect.signature(transform).parameters.values()
    except (TypeError, ValueError):  # something built in
        return False
    needed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    return len(needed) == 2


_locks: dict[int, threading.Lock] = {}  # by process: one that was locked by a thread at a fork would stay so


class seeded:
    """Make a transform that draws from the global generators, such as torchvision's, repeatable.

    The generators of random, numpy and torch are seeded with the sample's key while it runs, and put back as they
    were. In threads it runs one at a time, because they share these generators: use processes.
    """

    def __init__(self, transform: Callable[[Any], Any]) -> None:
        self.transform = transform

    def __call__(self, sample: Any, rng: Chance) -> Any:
        numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
        with _locks.setdefault(os.getpid(), threading.Lock()):
            before = random.getstate(), numpy and numpy.get_state(), torch and torch.get_rng_state()
            try:
                random.seed(rng.key)
                if numpy:
                    numpy.seed(rng.key & 0xFFFFFFFF)
                if torch:
                    torch.default_generator.manual_seed(rng.key & _WORD >> 1)
                return self.transform(sample)
            finally:
                random.setstate(before[0])
                if numpy:
                    numpy.set_state(before[1])
                if torch:
                    torch.set_rng_state(before[2])
