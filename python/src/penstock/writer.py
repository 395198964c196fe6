"""Makes a version of a dataset from samples that Python has.

    with penstock.create("mine", bucket="b") as w:
        w.add("0001", {"jpg": data, "cls": 7, "caption": "a cat"})

Bytes become fields, in tar shards that WebDataset reads as well; ints, floats and texts
become columns, which are in the manifest. The version appears when the block is left, as
a whole; if it is left by an exception there is none.

With a base the version holds what that one does, and only what is new or different is
written. Several threads, processes or machines write a version together by parts, which
may be sent to them; the version is published once, by its writer:

    with penstock.create("mine", bucket="b", base=True) as w:
        pool.map(fill, [w.part(i) for i in range(8)])     # each: with part: part.add(...)
        w.remove("0007")

Samples are numbered in the order base, writer, parts by their numbers; whoever was faster.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index as as_index
from types import TracebackType
from typing import Any, Protocol

from penstock.client import Client
from penstock.errors import Exists, Invalid, NotFound
from penstock.manifest import Manifest, Shard
from penstock.manifest_writer import ManifestWriter
from penstock.packer import Packer, check_key, row
from penstock.table import Table

__all__ = ["Draft", "Part", "Writer", "create"]

_DATASET = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)
_VERSION = re.compile(r"(.*?)(?:@([1-9][0-9]{0,18}))?", re.ASCII | re.DOTALL)
_MAX_PARTS = 1_000_000


class Draft(Protocol):
    """A version that is being written somewhere. It pickles for those who write parts of it."""

    version: int
    newest: int  # of those that are published; 0 if there are none

    def base(self, version: int) -> Table:
        """A version that is there, or NotFound."""

    def shard(self, stem: str, data: bytearray) -> tuple[str, str]:
        """Make a shard durable, and return its name and tag."""

    def discard(self, names: Iterable[str]) -> None:
        """Remove shards."""

    def hand_in(self, part: int, manifest: bytes) -> None:
        """Say what a part has written, or Exists if somebody has done so."""

    def handed_in(self, part: int) -> bytes | None:
        """What hand_in was told, None if it was not."""

    def publish(self, manifest: bytes, about: Mapping[str, Any], shards: Collection[str]) -> None:
        """Make the version visible, whole, and remove what is not among the shards."""

    def abandon(self) -> None:
        """Remove what was written."""


def create(
    name: str,
    *,
    bucket: str | None = None,
    to: str | os.PathLike[str] | None = None,
    client: Client | None = None,
    base: bool | int | str | None = None,
    classes: Mapping[str, Sequence[str]] | None = None,
    shard_size: int = 64 << 20,
    chunk_size: int = 4 << 20,
) -> Writer:
    """Begin the next version of a dataset, in a bucket of a node or in a directory.

    It holds what is added to it, and what base holds: a version ("mine@3", or 3), or the newest if there is one
    (True). Texts of the columns in classes are names of classes, numbered as they stand there, behind those of base,
    others behind them as they come. `cls` is such a column if it holds texts. Samples keep the order they are
    added in: shuffle them if neighbours are alike, or let the loader do it with a large window.
    """
    if not _DATASET.fullmatch(name):
        raise Invalid(f"{name!r} cannot name a dataset: 1 to 128 letters, digits, dots, dashes and underscores can")
    if (bucket is None) == (to is None):
        raise Invalid("a dataset is written to a bucket or to a directory: pass bucket= or to=")
    if shard_size < 1 or chunk_size < 1:
        raise Invalid("sizes must be above zero")
    version = _base(name, base)
    draft: Draft
    if to is not None:
        from penstock.draft import DirectoryDraft

        draft = DirectoryDraft(os.fspath(to), name)
    else:
        from penstock.draft import BucketDraft

        assert bucket is not None
        draft = BucketDraft(client or Client(), bucket, name)
    try:
        if version is None:
            version = draft.newest
        if version == 0 and isinstance(base, str):
            raise NotFound(f"there is no version of {name} to add to")
        table = draft.base(version) if version else None
        for field in table.fields if table else ():
            if table and not table.manifest.checked(field):
                raise Invalid(f"the checksums of {field} are not known in {table}: nothing can be added to it")
        return Writer(draft, _Form(name, {"cls": [], **(classes or {})}, shard_size), chunk_size, table)
    except BaseException:
        draft.abandon()
        raise


def _base(name: str, base: bool | int | str | None) -> int | None:
    """The number of the version to add to: 0 for none, None for the newest."""
    if base is None or isinstance(base, bool):
        return None if base else 0
    if isinstance(base, str):
        found = _VERSION.fullmatch(base)
        if found is None or found[1] != name:
            raise Invalid(f"{name} can only add to a version of itself, {name}@N, not to {base!r}")
        return int(found[2]) if found[2] else None
    version = as_index(base)
    if version < 1:
        raise Invalid(f"there is no version {version} to add to: they begin with 1")
    return version


@dataclass(frozen=True)
class _Form:
    """What all parts of a version are written alike by."""

    name: str
    classes: Mapping[str, Sequence[str]]
    shard_size: int


class Writer:
    """Takes samples, one after the other. Not for several threads at once: they have parts."""

    def __init__(self, draft: Draft, form: _Form, chunk_size: int, base: Table | None) -> None:
        self._draft, self._form, self._base, self._chunk_size = draft, form, base, chunk_size
        manifest = base.manifest if base else None
        self._own = Packer(
            draft, form.name, classes=form.classes, all_classes=False, shard_size=form.shard_size, base=manifest
        )
        self._removed: dict[bytes, int] = {}  # keys, and their numbers in base
        self._parts: set[int] = set()
        self._version = draft.version
        self._process = os.getpid()
        self._done = False

    @property
    def version(self) -> int:
        """The number that the version gets. If it turns out that nothing has changed, that of the base."""
        return self._version

    def __len__(self) -> int:
        """The number of samples that were added here, and not by a part."""
        return len(self._own)

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._commit("The version is given up. Only commit() can be called again, in the with block")
        finally:
            self.abandon()

    def __getstate__(self) -> None:
        raise Invalid("a writer stays in its process: send parts of it to others, writer.part(0), writer.part(1), ...")

    def add(self, key: str, sample: Mapping[str, Any]) -> None:
        """Add a sample: bytes-like values are fields, ints, floats and texts are columns, None is left out.

        It takes the place of one that the base has under that key; if it is the same, that stays where it is. One
        that is refused changes nothing: the next may follow.
        """
        self._check()
        if self._removed and check_key(key) in self._removed:
            raise Invalid(f"the sample {key!r} was removed")
        self._own.add(key, sample)

    def remove(self, key: str) -> None:
        """Leave a sample of the base out, or NotFound."""
        self._check()
        raw = key.encode(errors="surrogatepass")  # a base of the command's may have keys that are refused here
        i = self._base.manifest._find(raw) if self._base else None
        if i is None:
            raise NotFound(f"{self._base or self._form.name} has no sample {key!r} that could be removed")
        if raw in self._own:
            raise Invalid(f"the sample {key!r} was added")
        self._removed[raw] = i

    def part(self, number: int) -> Part:
        """A part of the version, to be filled by whoever it is sent to. All parts must be closed before the commit."""
        self._check()
        number = as_index(number)
        if not 0 <= number < _MAX_PARTS:
            raise Invalid(f"parts have numbers from 0 to {_MAX_PARTS - 1}, not {number}")
        self._parts.add(number)
        return Part(self._draft, self._form, number, self._base)

    def _check(self) -> None:
        if self._done:
            raise Invalid("the version is published or given up")
        if self._process != os.getpid():
            raise Invalid("the writer belongs to another process: send parts of it to others")

    def commit(self) -> int:
        """Publish the version, and return its number. Leaving the with block does it.

        If parts are not closed yet, or their writers were killed, it fails and can be called again when they are, in
        the block: one that is left gives the version up. If nothing differs from a base that is the newest version,
        none is published.
        """
        return self._commit("Close them, fill them again if their processes have died, or give the version up")

    def _commit(self, advice: str) -> int:
        if self._done:
            return self._version
        self._check()
        handed = {number: self._draft.handed_in(number) for number in sorted(self._parts)}
        if missing := [str(number) for number, record in handed.items() if record is None]:
            some = f"{', '.join(missing[:10])}{', ...' if len(missing) > 10 else ''}"
            raise Invalid(
                f"nothing is published, because {len(missing)} of {len(handed)} parts were not closed: {some}. {advice}"
            )
        self._done = True
        try:
            self._own.flush()
            parts = [record for record in handed.values() if record is not None]
            whole = self._merge(parts) if self._base or parts else self._own.manifest
            if whole is not None:
                self._publish(whole)
        except BaseException:
            with contextlib.suppress(Exception):  # the error that led here says more
                self._draft.abandon()
            raise
        return self._version

    def _publish(self, w: ManifestWriter) -> None:
        if len(w) == 0:
            raise Invalid("there are no samples to make a dataset of")
        chunk = max(round(self._chunk_size * len(w) / w.total), 1) if w.total else 1
        data, logical = w.finish(chunk_samples=min(chunk, 1 << 31), created=time.time_ns())
        about = {
            "samples": len(w), "bytes": w.total, "fields": sorted(w.fields),
            "columns": sorted(w.columns), "logical": logical,
        }  # fmt: skip
        if self._base:  # the node makes sure that it is still there
            about["base"] = self._base.version
        self._draft.publish(data, about, {shard[0] for shard in w.shards})

    def _merge(self, handed: Sequence[bytes]) -> ManifestWriter | None:
        """The whole version; None if it is the base."""
        whole = ManifestWriter(self._form.name, self._draft.version)
        added = [Manifest(data) for data in (self._own.manifest.finish(chunk_samples=1, created=0)[0], *handed)]
        for manifest in added:
            manifest.verify()
        gone, seen = set(self._removed.values()), set[bytes]()
        fresh = [self._fresh(manifest, gone, seen) for manifest in added]
        if self._base:
            last = self._base.manifest
            if not gone and not any(fresh) and self._base.version == self._draft.newest:
                self._version = self._base.version
                self._draft.abandon()
                return None
            whole.column_order = last.columns
            whole.take(last, [i for i in range(len(last)) if i not in gone] if gone else range(len(last)), {})
        old = _shards(self._base.manifest) if self._base else {}
        for manifest, numbers in zip(added, fresh):
            # All shards that were written, because some hold nothing but values, as texts for WebDataset.
            shards = {s: whole.add_shard(*shard) for name, (s, shard) in _shards(manifest).items() if name not in old}
            whole.take(manifest, numbers, shards)
        return whole

    def _fresh(self, manifest: Manifest, gone: set[int], seen: set[bytes]) -> Sequence[int]:
        """The samples that the base does not have just so. Those of the base whose place they take are gone then."""
        if not self._base:
            return range(len(manifest))
        last, numbers = self._base.manifest, []
        for i in range(len(manifest)):
            key = manifest.key(i)
            raw = key.encode()
            if raw in self._removed:
                raise Invalid(f"the sample {key!r} was removed, and added by a part")
            if raw in seen:
                raise Exists(f"two samples have the key {key!r}")
            seen.add(raw)
            there = last._find(raw)
            if there is None or row(last, there) != row(manifest, i):
                numbers.append(i)
                if there is not None:
                    gone.add(there)
        return numbers

    def abandon(self) -> None:
        """Give the version up, and remove what was written of it, unless it is published."""
        if not self._done and self._process == os.getpid():
            self._done = True
            self._draft.abandon()


def _shards(manifest: Manifest) -> dict[str, tuple[int, Shard]]:
    """The shards by their names, with their numbers."""
    found = map(manifest.shard, range(manifest.shards))
    return {shard.name: (number, shard) for number, shard in enumerate(found)}


class Part:
    """A share of a version, which others may fill: threads, processes, machines.

    It pickles while it is empty, and writes shards of its own. It counts when it was closed; one whose process was
    killed, or that was given up, may be filled again from its beginning. For one user at a time.
    """

    def __init__(self, draft: Draft, form: _Form, number: int, base: Table | None) -> None:
        self._draft, self._form, self._base, self.number = draft, form, base, number
        self._packer: Packer | None = None
        self._process = 0
        self._closed = False
        self._gone = False  # what was added to it

    def __repr__(self) -> str:
        return f"<Part {self.number} of {self._form.name}@{self._draft.version}>"

    def __getstate__(self) -> dict[str, Any]:
        if self._packer is not None or self._closed:
            raise Invalid(f"{self} has begun in this process: it cannot go on in another")
        return self.__dict__

    def __enter__(self) -> Part:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def __len__(self) -> int:
        return len(self._packer) if self._packer else 0

    def add(self, key: str, sample: Mapping[str, Any]) -> None:
        """Add a sample, as Writer.add does. Classes must be known: those of the base, and those given to create."""
        self._begun().add(key, sample)
        self._gone = False

    def _begun(self) -> Packer:
        if self._closed:
            raise Invalid(f"{self} is closed")
        if self._packer is None:
            form = self._form
            # Another attempt at this part may be writing yet, somewhere: no two have the same names.
            self._process, stem = os.getpid(), f"{self.number:06}-{secrets.token_hex(4)}-"
            self._packer = Packer(
                self._draft, form.name, stem=stem, classes=form.classes, all_classes=True, shard_size=form.shard_size,
                base=self._base.manifest if self._base else None,
            )  # fmt: skip
        elif self._process != os.getpid():
            raise Invalid(f"{self} was begun in another process")
        return self._packer

    def close(self) -> None:
        """Hand in what was written. Leaving the with block does it."""
        if self._closed:
            return
        if self._gone:  # or it would count as one that is empty
            raise Invalid(f"what was added to {self} is gone: fill it again from its beginning")
        packer = self._begun()
        try:
            packer.flush()
            record = packer.manifest.finish(chunk_samples=1, created=0)[0]
        except BaseException:
            self.abandon()
            raise
        try:
            self._draft.hand_in(self.number, record)
        except Exists:
            self.abandon()
            raise
        except BaseException:
            # It may count all the same. If it does not, the commit removes its shards.
            self._packer, self._gone = None, True
            raise
        self._closed = True

    def abandon(self) -> None:
        """Remove what was written. The part may be filled anew."""
        packer, self._packer = self._packer, None
        self._gone = packer is not None or self._gone
        if packer is not None and not self._closed and self._process == os.getpid():
            self._draft.discard(packer.names)
