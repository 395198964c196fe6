"""Where a version is written to: a directory or a bucket. docs/internals/datasets.md says how it is published."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from penstock.client import Client
from penstock.connection import Garbled
from penstock.errors import Busy, Canceled, Exists, Internal, NotFound, PenstockError, Stale, Unavailable
from penstock.manifest import Manifest
from penstock.payload import Payload
from penstock.table import Table
from penstock.transport import Call

__all__ = ["BucketDraft", "DirectoryDraft"]

_TAKEN = re.compile(r"manifest-([0-9]{6,20})(?:\.removed)?")  # a number is not given out twice


class DirectoryDraft:
    """A version in a directory, which is locked meanwhile. A killed writer leaves a folder that the next one removes."""

    def __init__(self, directory: str, name: str) -> None:
        self._directory = os.path.abspath(directory)
        self._token = secrets.token_hex(4)
        os.makedirs(self._directory, exist_ok=True)
        self._lock = _lock(self._directory)
        try:
            names = os.listdir(self._directory)
            taken = [(int(m[1]), m[0]) for m in map(_TAKEN.fullmatch, names) if m]
            self.version = max(taken, default=(0, ""))[0] + 1
            self.newest = max((n for n, full in taken if full == f"manifest-{n:06}"), default=0)
            self._check_name(name)
            self._folder = os.path.join(self._directory, f"{self.version:06}")
            self._manifest = os.path.join(self._directory, f"manifest-{self.version:06}")
            shutil.rmtree(self._folder, ignore_errors=True)
            os.mkdir(self._folder)
        except BaseException:
            self._unlock()
            raise

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None}  # others write shards, and hand in; they neither publish nor give up

    def _check_name(self, name: str) -> None:
        if self.newest:
            with Manifest.open(os.path.join(self._directory, f"manifest-{self.newest:06}")) as last:
                if last.name != name:
                    raise Exists(f"{self._directory} holds the dataset {last.name!r}, not {name!r}")

    def base(self, version: int) -> Table:
        """A version that is there, or NotFound."""
        from penstock.opening import _in_directory

        return _in_directory(self._directory, version)

    def shard(self, stem: str, data: bytearray) -> tuple[str, str]:
        """Write a shard, and return its name and tag when it is durable."""
        path = os.path.join(self._folder, f"{stem}.tar")
        _write(path + ".part", data)
        os.rename(path + ".part", path)
        return f"{self.version:06}/{stem}.tar", ""

    def discard(self, names: Iterable[str]) -> None:
        """Remove shards."""
        for name in names:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._directory, name))

    def _handed(self, part: int) -> str:
        return os.path.join(self._folder, f"{self._token}-{part:06}.part")

    def hand_in(self, part: int, manifest: bytes) -> None:
        """Say what a part has written, or Exists if somebody has done so."""
        path = self._handed(part)
        new = f"{path}.{secrets.token_hex(4)}.part"
        _write(new, manifest)
        try:
            os.link(new, path)
        except FileExistsError:
            raise Exists(f"part {part} was handed in before") from None
        finally:
            os.unlink(new)

    def handed_in(self, part: int) -> bytes | None:
        """What hand_in was told, None if it was not."""
        try:
            with open(self._handed(part), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def publish(self, manifest: bytes, about: Mapping[str, Any], shards: Collection[str]) -> None:
        """Give the manifest its name, which fails if another has it. What is not among the shards is removed before."""
        new = self._manifest + ".new"
        _write(new, manifest)
        self.discard({f"{self.version:06}/{entry}" for entry in os.listdir(self._folder)}.difference(shards))
        # The shards' names must be durable before the manifest's is.
        try:
            os.rmdir(self._folder)  # if nothing had to be written
        except OSError:
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
    name: the node decides whose version it is. Who has published it removes what all
    others have made for it, because nobody can publish that any more.
    """

    def __init__(self, client: Client, bucket: str, name: str) -> None:
        self._client, self._bucket, self._name = client, bucket, name
        self._token = secrets.token_hex(4)
        self._manifest = ""  # its key, if it was stored
        self.version, self.newest = self._next()

    def _next(self) -> tuple[int, int]:
        try:
            of, number, published = self._look()
        except NotFound:
            self._client.bucket(self._bucket)  # says so if there is none
            return 1, 0
        if of and of != self._bucket:
            raise Exists(f"dataset {self._name} lies in bucket {of}, not in {self._bucket}")
        return number, max(published, default=0)

    def _look(self) -> tuple[str, int, dict[int, str]]:
        """The bucket, the next version, and the manifests of those that are published."""

        def parse(value: dict[str, Any]) -> tuple[str, int, dict[int, str]]:
            try:
                versions = {int(v["version"]): str(v["manifest"]) for v in value["versions"]}
                return str(value["bucket"]), int(value["next"]), versions
            except (KeyError, TypeError, ValueError) as error:
                raise Garbled(f"it does not describe a dataset: {error!r}") from error

        return self._client._transport.json(Call("GET", f"/v1/datasets/{self._name}", f"dataset {self._name}"), parse)

    def base(self, version: int) -> Table:
        """A version that is there, or NotFound."""
        from penstock.catalog import open_named

        return open_named(self._client, self._name, version)

    def _of(self, name: str) -> str:
        return f"{self._bucket}/{self._name}/{name}"

    def shard(self, stem: str, data: bytearray) -> tuple[str, str]:
        """Store a shard, and return its name and ETag."""
        name = f"{self.version:06}/{self._token}-{stem}.tar"
        return name, self._client.put(self._of(name), data, content_type="application/x-tar").etag

    def discard(self, names: Iterable[str]) -> None:
        """Remove shards."""
        for name in names:
            with contextlib.suppress(PenstockError):
                self._client.delete(self._of(name))

    def _handed(self, part: int) -> str:
        return self._of(f"{self.version:06}/{self._token}-{part:06}.part")

    def hand_in(self, part: int, manifest: bytes) -> None:
        """Say what a part has written, or Exists if somebody has done so."""
        try:
            self._client.put(self._handed(part), manifest, if_none_match="*")
        except (Exists, Stale, Unavailable, Internal, Canceled) as error:
            # It may have happened all the same. No two have written the same shards.
            there = self.handed_in(part)
            if there is None:
                raise
            if there != manifest:
                raise Exists(f"part {part} was handed in before") from error

    def handed_in(self, part: int) -> bytes | None:
        """What hand_in was told, None if it was not."""
        try:
            return self._client.get(self._handed(part))
        except NotFound:
            return None

    def publish(self, manifest: bytes, about: Mapping[str, Any], shards: Collection[str]) -> None:
        """Store the manifest, and tell the node: that is the commit. What is not among the shards is removed after it."""
        key = f"{self._name}/manifest-{self.version:06}"
        try:
            info = self._client.put(f"{self._bucket}/{key}", manifest, if_none_match="*")
        except (Exists, Stale):  # somebody else's, who may be about to publish it, or was killed
            key += f"-{self._token}"
            info = self._client.put(f"{self._bucket}/{key}", manifest)
        self._manifest = key
        body = json.dumps({"bucket": self._bucket, "manifest": key, "etag": info.etag, **about}).encode()
        path, what = f"/v1/datasets/{self._name}/{self.version}", f"version {self.version} of {self._name}"
        call = Call("PUT", path, what, {"Content-Type": "application/json"}, Payload.of(body), once=True)
        try:
            self._client._transport.json(call, lambda value: value)
        except (Unavailable, Internal, Canceled):
            # It may have happened all the same. If nobody can tell, everything must stay.
            token, self._token = self._token, ""
            if self._look()[2].get(self.version) != key:
                self._token = token
                raise
        self._token = ""
        self._tidy({f"{self._name}/{shard}" for shard in shards} | {key})

    def _tidy(self, mine: Collection[str]) -> None:
        """Remove what was made for the version and is no part of it. What stays is in nobody's way."""
        with contextlib.suppress(PenstockError):
            for prefix in (f"{self._name}/{self.version:06}/", f"{self._name}/manifest-{self.version:06}"):
                for key in [entry.key for entry in self._client.list(self._bucket, prefix=prefix)]:
                    if key not in mine:
                        self._client.delete(f"{self._bucket}/{key}")

    def abandon(self) -> None:
        """Remove what was stored, unless it was published, or may have been."""
        if not self._token:
            return
        with contextlib.suppress(PenstockError):
            mine = f"{self._name}/{self.version:06}/{self._token}-"
            keys = [entry.key for entry in self._client.list(self._bucket, prefix=mine)]
            for key in [self._manifest, *keys] if self._manifest else keys:
                with contextlib.suppress(PenstockError):
                    self._client.delete(f"{self._bucket}/{key}")
