"""Where a version is written to: a directory or a bucket. docs/internals/datasets.md says how it is published."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from typing import Any

from penstock.client import Client
from penstock.connection import Garbled
from penstock.errors import Busy, Canceled, Exists, Internal, NotFound, PenstockError, Stale, Unavailable
from penstock.manifest import Manifest
from penstock.payload import Payload
from penstock.transport import Call

__all__ = ["BucketDraft", "DirectoryDraft"]

_TAKEN = re.compile(r"manifest-([0-9]{6,20})(?:\.removed)?")  # a number is not given out twice


class DirectoryDraft:
    """A version in a directory, which is locked meanwhile. A killed writer leaves a folder that the next one removes."""

    def __init__(self, directory: str, name: str) -> None:
        self._directory = os.path.abspath(directory)
        os.makedirs(self._directory, exist_ok=True)
        self._lock = _lock(self._directory)
        try:
            taken = [int(m[1]) for m in map(_TAKEN.fullmatch, os.listdir(self._directory)) if m]
            self.version = max(taken, default=0) + 1
            self._check_name(name)
            self._folder = os.path.join(self._directory, f"{self.version:06}")
            self._manifest = os.path.join(self._directory, f"manifest-{self.version:06}")
            shutil.rmtree(self._folder, ignore_errors=True)
            os.mkdir(self._folder)
        except BaseException:
            self._unlock()
            raise

    def _check_name(self, name: str) -> None:
        for version in range(self.version - 1, 0, -1):
            path = os.path.join(self._directory, f"manifest-{version:06}")
            if os.path.exists(path):
                with Manifest.open(path) as last:
                    if last.name != name:
                        raise Exists(f"{self._directory} holds the dataset {last.name!r}, not {name!r}")
                return

    def shard(self, number: int, data: bytearray) -> tuple[str, str]:
        """Write a shard, and return its name and tag when it is durable."""
        path = os.path.join(self._folder, f"{number:06}.tar")
        _write(path + ".part", data)
        os.rename(path + ".part", path)
        return f"{self.version:06}/{number:06}.tar", ""

    def publish(self, manifest: bytes, about: Mapping[str, Any]) -> None:
        """Give the manifest its name, which fails if another has it."""
        new = self._manifest + ".new"
        _write(new, manifest)
        # The shards' names must be durable before the manifest's is.
        _sync(self._folder)
        _sync(self._directory)
        try:
            os.link(new, self._manifest)
        except FileExistsError:
            raise Exists(f"version {self.version} of {self._directory} was published by somebody else") from None
        os.unlink(new)
        _sync(self._directory)
        self._unlock()

    def abandon(self) -> None:
        """Remove what was written, unless it was published."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._manifest + ".new")
        if not os.path.exists(self._manifest):
            shutil.rmtree(self._folder, ignore_errors=True)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            import fcntl

            # Closing is not enough: a forked child, such as a worker, has the same lock open.
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            os.close(self._lock)
            self._lock = None


def _lock(directory: str) -> int | None:
    try:
        import fcntl
    except ImportError:  # Windows: there the manifest's name alone decides
        return None
    fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise Busy(f"another writer is at work in {directory}") from None
    return fd


def _write(path: str, data: bytes | bytearray) -> None:
    try:
        with open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise


def _sync(directory: str) -> None:
    if os.name == "nt":  # which has no such thing
        return
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class BucketDraft:
    """A version in a bucket of a node.

    Writers of the same version do not see each other, so no two give an object the same
    name: the node decides whose version it is, and the other's objects are its own to remove.
    """

    def __init__(self, client: Client, bucket: str, name: str) -> None:
        self._client, self._bucket, self._name = client, bucket, name
        self._token = secrets.token_hex(4)
        self._objects: list[str] = []
        self.version = self._next()

    def _next(self) -> int:
        try:
            of, number, _ = self._look()
        except NotFound:
            self._client.bucket(self._bucket)  # says so if there is none
            return 1
        if of and of != self._bucket:
            raise Exists(f"dataset {self._name} lies in bucket {of}, not in {self._bucket}")
        return number

    def _look(self) -> tuple[str, int, set[str]]:
        """The bucket, the next version, and the manifests of those that are published."""

        def parse(value: dict[str, Any]) -> tuple[str, int, set[str]]:
            try:
                return str(value["bucket"]), int(value["next"]), {str(v["manifest"]) for v in value["versions"]}
            except (KeyError, TypeError, ValueError) as error:
                raise Garbled(f"it does not describe a dataset: {error!r}") from error

        return self._client._transport.json(Call("GET", f"/v1/datasets/{self._name}", f"dataset {self._name}"), parse)

    def shard(self, number: int, data: bytearray) -> tuple[str, str]:
        """Store a shard, and return its name and ETag."""
        name = f"{self.version:06}/{self._token}-{number:06}.tar"
        key = f"{self._name}/{name}"
        self._objects.append(key)
        info = self._client.put(f"{self._bucket}/{key}", data, content_type="application/x-tar")
        return name, info.etag

    def publish(self, manifest: bytes, about: Mapping[str, Any]) -> None:
        """Store the manifest, and tell the node: that is the commit."""
        key = f"{self._name}/manifest-{self.version:06}"
        try:
            info = self._client.put(f"{self._bucket}/{key}", manifest, if_none_match="*")
        except (Exists, Stale):  # somebody else's, who may be about to publish it, or was killed
            key += f"-{self._token}"
            info = self._client.put(f"{self._bucket}/{key}", manifest)
        self._objects.append(key)
        body = json.dumps({"bucket": self._bucket, "manifest": key, "etag": info.etag, **about}).encode()
        path, what = f"/v1/datasets/{self._name}/{self.version}", f"version {self.version} of {self._name}"
        call = Call("PUT", path, what, {"Content-Type": "application/json"}, Payload.of(body), once=True)
        try:
            self._client._transport.json(call, lambda value: value)
        except (Unavailable, Internal, Canceled):
            # It may have happened all the same. If nobody can tell, everything must stay.
            mine, self._objects = self._objects, []
            if key not in self._look()[2]:
                self._objects = mine
                raise
        self._objects = []

    def abandon(self) -> None:
        """Remove what was stored."""
        for key in reversed(self._objects):
            with contextlib.suppress(PenstockError):
                self._client.delete(f"{self._bucket}/{key}")
        self._objects = []
