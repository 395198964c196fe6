"""A whole version of a dataset: a manifest, and the place where its shards are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.dataset import Dataset, Identity, OneOrder, Ordering, Sample
from penstock.errors import NotFound, PenstockError, SampleError, Stale
from penstock.manifest import Column, Manifest
from penstock.order import Policy
from penstock.place import Pieces, Place

__all__ = ["Table"]


class Table(Dataset):
    """A whole version."""

    def __init__(self, open: Callable[[], Manifest], place: Place, *, name: str, version: int, hash: str) -> None:
        self.name, self.version, self.hash = name, version, hash
        self.place = place
        #: What it is called among ranks, if it was opened by a name without a version.
        self.floating: Callable[[], str] | None = None
        self._open = open
        self._manifest: Manifest | None = None
        self._total: int | None = None

    def __repr__(self) -> str:
        return f"<Dataset {self.name}@{self.version}: {len(self):,} samples>"

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_manifest": None}

    @property
    def manifest(self) -> Manifest:
        """The manifest of the version."""
        if self._manifest is None:
            manifest = self._open()
            if manifest.hash != self.hash:
                raise Stale(f"{manifest} has other samples than {self} had when it was opened")
            self._manifest = manifest
        return self._manifest

    def close(self) -> None:
        """Drop open files and idle connections. The dataset stays usable."""
        self.place.close()
        manifest, self._manifest = self._manifest, None
        if manifest is not None:
            manifest.close()

    def __len__(self) -> int:
        return len(self.manifest)

    @property
    def fields(self) -> tuple[str, ...]:
        return self.manifest.fields

    @property
    def columns(self) -> tuple[str, ...]:
        return self.manifest.columns

    @property
    def classes(self) -> tuple[str, ...]:
        found = [c for c in map(self.manifest.column, self.columns) if c.type == "class"]
        for column in found:
            if column.name == "cls" or len(found) == 1:
                return column.classes
        return ()

    def column(self, name: str) -> Column:
        """A column as a whole: its type, its classes, all of its values."""
        return self.manifest.column(name)

    def key(self, i: int) -> str:
        return self.manifest.key(self._checked([i])[0])

    def find(self, key: str) -> int:
        return self.manifest.find(key)

    def number(self, i: int) -> tuple[int, int]:
        return self.word, i

    @property
    def word(self) -> int:
        """The identity of the version in 64 bits, as orders take it: the first of the hash, the lowest first."""
        return int.from_bytes(bytes.fromhex(self.hash[:16]), "little")

    @property
    def identity(self) -> Identity:
        return Identity(dataset=self.name, version=self.version, logical=self.hash, selection="")

    @property
    def chunk(self) -> int:
        """How many consecutive samples are a chunk."""
        return self.manifest.chunk_samples

    def sizes(self, indices: Sequence[int] | None = None) -> int:
        """How many bytes the fields of some samples have, or of all."""
        if indices is not None:
            return sum(size for f in self.fields for size in self.manifest.locate(indices, f).sizes if size > 0)
        if self._total is None:
            step = 1 << 16
            self._total = sum(self.sizes(range(at, min(at + step, len(self)))) for at in range(0, len(self), step))
        return self._total

    def ordering(self, policy: Policy, seed: int) -> Ordering:
        total = self.sizes() if policy.kind == "window" else None
        return OneOrder(len(self), self.chunk, total, self.word, seed, policy)

    def read(self, indices: Sequence[int], fields: Sequence[str] | None) -> list[Sample | SampleError]:
        manifest = self.manifest
        columns = [c for c in manifest.columns if fields is None or c in fields]
        pieces = [f for f in manifest.fields if fields is None or f in fields]
        if fields is not None and len(columns) + len(pieces) < len(set(fields)):
            missing = sorted(set(fields).difference(columns, pieces))
            there = ", ".join(manifest.fields + manifest.columns)
            raise NotFound(f"{self} has no field or column {', '.join(missing)}: it has {there}")
        samples: list[Any] = [{"__key__": key, "__index__": i} for key, i in zip(manifest.keys(indices), indices)]
        for name in columns:
            self._add_column(samples, indices, manifest.column(name))
        if pieces and samples:
            self._add_pieces(samples, indices, pieces)
        return samples

    def _add_column(self, samples: list[Sample], indices: Sequence[int], column: Column) -> None:
        if column.type == "text" or column.optional:
            for sample, i in zip(samples, indices):
                value = column[i]
                if value is not None:
                    sample[column.name] = column.numbers([i])[0] if column.type == "class" else value
            return
        for sample, value in zip(samples, column.numbers(indices)):
            sample[column.name] = value

    def _add_pieces(self, samples: list[Any], indices: Sequence[int], fields: list[str]) -> None:
        shards: list[int] = []
        offsets: list[int] = []
        sizes: list[int] = []
        checksums: list[int | None] = []
        whose: list[tuple[int, str]] = []  # sample and field of each piece
        for field in fields:
            located = self.manifest.locate(indices, field)
            sums: Sequence[int | None] = located.checksums or [None] * len(located.sizes)
            if -1 not in located.sizes:
                shards += located.shards
                offsets += located.offsets
                sizes += located.sizes
                checksums += sums
                whose += [(i, field) for i in range(len(samples))]
                continue
            for i, (shard, offset, size, crc) in enumerate(zip(located.shards, located.offsets, located.sizes, sums)):
                if size >= 0:
                    shards.append(shard)
                    offsets.append(offset)
                    sizes.append(size)
                    checksums.append(crc)
                    whose.append((i, field))
        pieces = Pieces(shards, offsets, sizes, checksums)
        items = self.place.read(pieces, lambda shard: self.manifest.shard(shard).name)
        for at, ((i, field), item) in enumerate(zip(whose, items)):
            if isinstance(item, PenstockError):
                if not isinstance(samples[i], SampleError):
                    samples[i] = self._error(samples[i], field, item, shards[at], offsets[at])
            elif not isinstance(samples[i], SampleError):
                samples[i][field] = item

    def _error(self, sample: Sample, field: str, error: PenstockError, shard: int, offset: int) -> SampleError:
        # Who removes a version does not know who is reading it.
        hint = f"; was {self} removed? Open a version that is there" if error.kind == "NotFound" else ""
        found = SampleError(
            f"field {field}: {error}{hint}",
            kind=error.kind,
            dataset=self.name,
            version=self.version,
            index=sample["__index__"],
            key=sample["__key__"],
            shard=self.manifest.shard(shard).name,
            offset=offset,
        )
        found.__cause__ = error.with_traceback(None)
        return found
