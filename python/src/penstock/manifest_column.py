"""Columns of a manifest: small values that samples have, kept in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.errors import Corrupt, Invalid
from penstock.manifest_sections import Area, Strings, check_number, check_numbers, getter


class Column:
    """A small value that samples have, kept in the manifest itself."""

    def __init__(self, name: str, kind: str, optional: bool, count: int, length: int, of: str) -> None:
        self.name = name
        self.type = kind  #: int, float, text or class
        self.optional = optional  #: a sample may have none, which is None here
        self._count = count  # of classes
        self._length = length
        self._of = of
        self._classes: tuple[str, ...] | None = None
        self._values: Area
        self._bits: Area
        self._texts: Strings

    def __repr__(self) -> str:
        return f"<Column {self.name}: {self.type}>"

    def __len__(self) -> int:
        return self._length

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of their numbers. Empty for other types."""
        if self._classes is None:
            self._classes = tuple(self._texts.text(i) for i in range(self._count))
        return self._classes

    def __getitem__(self, i: int) -> Any:
        """Return the value of sample i: an int, a float, a str, or None. Of a class it is the name."""
        check_number(i, self._length, self._of)
        if self.optional and not self._bits[i >> 3] >> (i & 7) & 1:
            return None
        if self.type == "text":
            return self._texts.text(i)
        value = self._values[i]
        if self.type != "class":
            return value
        if value >= self._count:
            raise Corrupt(f"{self._of}: sample {i} has class {value} of {self._count} in column {self.name}")
        return self.classes[value]

    def numbers(self, indices: Sequence[int]) -> tuple[Any, ...]:
        """Return the numbers of several samples: values, or the numbers of their classes.

        Where an optional column has none, it is 0. Texts have no numbers.
        """
        if self.type == "text":
            raise Invalid(f"column {self.name} holds texts, not numbers")
        indices = check_numbers(indices, self._length, self._of)
        if not indices:
            return ()
        numbers = self._values.pick(indices, getter(indices))
        if self.type == "class" and max(numbers) >= max(self._count, 1):
            raise Corrupt(f"{self._of}: a sample has class {max(numbers)} of {self._count} in column {self.name}")
        return numbers

    @property
    def values(self) -> memoryview:
        """All numbers, as by numbers(), without a copy: numpy.asarray takes it as it is."""
        if self.type == "text":
            raise Invalid(f"column {self.name} holds texts, not numbers")
        return self._values.all()

    @property
    def present(self) -> memoryview | None:
        """One bit for each sample, the lowest first: whether it has a value. None: all have."""
        return self._bits.all() if self.optional else None
