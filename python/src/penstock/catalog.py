"""Datasets of a node: what it says about them, and manifests that were downloaded.

A manifest is downloaded once and kept in the user's cache, where all processes map the
same file. It is named after the ETag that the node gives for it, so that one small
request tells whether it is the right one. A cache that cannot be written to costs
memory, and says so.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import tempfile
import time
import warnings
from dataclasses import dataclass
from typing import Any

from penstock.agreement import agree, check
from penstock.client import Client
from penstock.connection import Garbled
from penstock.errors import Corrupt, Denied, Invalid, NotFound, PenstockError
from penstock.manifest import Manifest
from penstock.place_node import Objects
from penstock.table import Table
from penstock.transport import Call

__all__ = ["Record", "cache_directory", "load", "open_named", "record"]

_UNUSED = 30 * 24 * 3600  # seconds after which a manifest nobody opened is removed from the cache
_LEFT = 24 * 3600  # and what a killed download left
_STEP = 1 << 20
_SMALL = 64 << 20


@dataclass(frozen=True)
class Record:
    """What a node says about one version."""

    name: str
    version: int
    bucket: str
    manifest: str  # its key
    etag: str
    logical: str

    @property
    def folder(self) -> str:
        """What the names of shards are relative to."""
        return self.manifest[: self.manifest.rfind("/") + 1]


def record(client: Client, name: str, version: int | None) -> Record:
    """Ask the node for a version; None is the newest."""

    def parse(value: dict[str, Any]) -> Record:
        found = {int(v["version"]): v for v in value["versions"]}
        if not found:
            raise NotFound(f"dataset {name} has no versions ({client.endpoint})")
        wanted = max(found) if version is None else version
        if wanted not in found:
            there = ", ".join(map(str, sorted(found)[-10:]))
            raise NotFound(f"dataset {name} has no version {wanted}: it has {there} ({client.endpoint})")
        of = found[wanted]
        return Record(name, wanted, str(value["bucket"]), str(of["manifest"]), str(of["etag"]), str(of["logical"]))

    def careful(value: dict[str, object]) -> Record:
        try:
            return parse(value)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, PenstockError):
                raise
            raise Garbled(f"it does not describe a dataset: {error!r}") from error

    return client._transport.json(Call("GET", f"/v1/datasets/{name}", f"dataset {name}"), careful)


def open_named(client: Client, name: str, version: int | None) -> Table:
    """Open a version of a dataset on a node; None is the newest."""
    found = record(client, name, version)
    if version is None:
        shared = functools.partial(_shared, client, name, found.bucket)
        agreed, _ = agree(shared, found.version, found.logical)
        if agreed != found.version:
            found = record(client, name, agreed)
    manifest = load(client, found)
    # Other processes look for the file first, and download it again only if it is gone.
    opener = functools.partial(load, client, found)
    table = Table(
        opener, Objects(client, found.bucket, found.folder), name=name, version=found.version, hash=found.logical
    )
    table._manifest = manifest
    if version is None:
        table.floating = shared
        check(table)
    return table


def _shared(client: Client, name: str, bucket: str) -> str:
    """What a dataset is called among ranks, which may have the same node under several addresses: two nodes may have
    datasets of the same name, but no buckets that were made in the same microsecond."""
    try:
        return f"{name} in {bucket} of {client.bucket(bucket).created.isoformat()}"
    except Denied:
        return f"{name} in {bucket}"


def cache_directory() -> str:
    """Where manifests are kept."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "penstock", "manifests")


def load(client: Client, found: Record) -> Manifest:
    """The manifest of a version, from the cache or the node."""
    mark = hashlib.sha256(f"{found.logical} {found.etag}".encode()).hexdigest()[:32]
    path = os.path.join(cache_directory(), f"{re.sub('[^A-Za-z0-9._-]', '_', found.name)}-{found.version}-{mark}")
    with contextlib.suppress(OSError, PenstockError):
        manifest = _matching(Manifest.open(path), found)
        if os.path.getsize(path) < _SMALL:  # of a larger one each part is checked when it is used
            manifest.verify()
        with contextlib.suppress(OSError):
            os.utime(path)
        return manifest
    data = _download(client, found)
    manifest = _matching(Manifest(data), found)
    manifest.verify()
    try:
        _keep(path, data)
        return Manifest.open(path)
    except OSError as error:
        reason = error.strerror or error
        warnings.warn(
            f"the manifest of {found.name}@{found.version} cannot be kept in {os.path.dirname(path)}: {reason}; "
            f"every process that uses it now takes {len(data):,} bytes of memory (set XDG_CACHE_HOME to another place)",
            RuntimeWarning,
            stacklevel=2,
        )
        return manifest


def _matching(manifest: Manifest, found: Record) -> Manifest:
    if manifest.hash != found.logical:
        raise Corrupt(f"the manifest of {found.name}@{found.version} has the hash {manifest.hash}, not {found.logical}")
    return manifest


def _download(client: Client, found: Record) -> bytearray:
    name = f"{found.bucket}/{found.manifest}"
    data = bytearray()
    try:
        with client.open(name) as source:
            while piece := source.read(_STEP):
                data += piece
    except NotFound as error:
        what = f"the manifest of {found.name}@{found.version} is gone; was the version removed? Open one that is there"
        raise NotFound(f"{what}: {error}") from error
    except Invalid as error:  # a bucket or key that cannot be: the record is damaged
        raise Corrupt(f"dataset {found.name}@{found.version}: {error}") from error
    return data


def _keep(path: str, data: bytearray) -> None:
    """Put a file into the cache: whole, or not at all."""
    directory = os.path.dirname(path)
    os.makedirs(directory, exist_ok=True)
    _tidy(directory)
    fd, temporary = tempfile.mkstemp(prefix=".new-", dir=directory)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _tidy(directory: str) -> None:
    """Remove what was not used for long: a cache must not grow for ever. Who has it mapped keeps it."""
    now = time.time()
    for entry in os.scandir(directory):
        with contextlib.suppress(OSError):
            age = now - entry.stat(follow_symlinks=False).st_mtime
            if age > (_LEFT if entry.name.startswith(".new-") else _UNUSED):
                os.unlink(entry.path)
