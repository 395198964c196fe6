"""Where a version is written to: a directory or a bucket. docs/internals/datasets.md says how it is published."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from penstock.client import Client
from penstock.connection import Garbled
from penstock.errors import Canceled, Exists, Internal, NotFound, PenstockError, Stale, Unavailable
from penstock.lock import Lock
from penstock.manifest import Manifest
from penstock.payload import Payload
from penstock.table import Table
from penstock.transport import Call

__all__ = ["BucketDraft", "DirectoryDraft"]

_TAKEN = re.compile(r"manifest-([0-9]{6,20})(?:\.removed)?")  # a number is not given out twice


def _among(record: bytes, published: Manifest) -> bool:
    """Whether what a part has handed in is part of a version. No two have written the same shards."""
    part = Manifest(record)
    written = {part.shard(i).name for i in range(part.shards)}
    return written <= {published.shard(i).name for i in range(published.shards)}


class DirectoryDraft:
    """A version in a directory, which is locked meanwhile. A killed writer leaves a folder that the next one removes."""

    def __init__(self, directory: str, name: str) -> None:
        self._directory = os.path.abspath(directory)
        self._token = secrets.token_hex(4)
        os.makedirs(self._directory, exist_ok=True)
        self._lock: Lock | None = Lock(self._directory)
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
        with self._open():
            _write(path + ".new", data)
            os.rename(path + ".new", path)
        return f"{self.version:06}/{stem}.tar", ""

    @contextlib.contextmanager
    def _open(self) -> Iterator[None]:
        """Says why the folder, or what was just written there, is gone."""
        try:
            yield
        except FileNotFoundError as error:
            raise Stale(f"version {self.version} of {self._directory} is published, or was given up") from error

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
        new = f"{path}.{secrets.token_hex(4)}.new"
        with self._open():
            _write(new, manifest)
            try:
                os.link(new, path)
            except FileExistsError:
                raise Exists(f"part {part} was handed in before") from None
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(new)
        if not os.path.exists(self._manifest):
            return
        with Manifest.open(self._manifest) as published:
            if _among(manifest, published):
                return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        raise Exists(f"part {part} was handed in before, and version {self.version} is published")

    def handed_in(self, part: int) -> bytes | None:
        """What hand_in was told, None if it was not."""
        try:
            with open(self._handed(part), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def publish(self, manifest: bytes, about: Mapping[str, Any], shards: Collection[str]) -> None:
        """Give the manifest its name, which fails if another has it. What is not among the shards is removed."""
        new = self._manifest + ".new"
        _write(new, manifest)
        # Records stay until the manifest is there: a second one of the same part finds this or that.
        self.discard(name for name in self._others(shards) if not name.endswith(".part"))
        # The shards' names must be durable before the manifest's is.
        _sync(self._folder)
        _sync(self._directory)
        try:
            os.link(new, self._manifest)
        except FileExistsError:
            raise Exists(f"version {self.version} of {self._directory} was published by somebody else") from None
        os.unlink(new)
        with contextlib.suppress(OSError):
            self.discard(self._others(shards))
            os.rmdir(self._folder)  # if nothing had to be written
        _sync(self._directory)
        self._unlock()

    def _others(self, shards: Collection[str]) -> set[str]:
        return {f"{self.version:06}/{entry}" for entry in os.listdir(self._folder)}.difference(shards)

    def abandon(self) -> None:
        """Remove what was written, unless it was published."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._manifest + ".new")
        if not os.path.exists(self._manifest):
            shutil.rmtree(self._folder, ignore_errors=True)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()


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
        self._published = False  # or it may have been, and everything must stay
        self._given_up = False
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
        self._check()
        name = f"{self.version:06}/{self._token}-{stem}.tar"
        return name, self._client.put(self._of(name), data, content_type="application/x-tar").etag

    def _check(self) -> None:
        if self._given_up:
            raise Stale(f"version {self.version} of {self._name} was given up")

    def discard(self, names: Iterable[str]) -> None:
        """Remove shards."""
        for name in names:
            with contextlib.suppress(PenstockError):
                self._client.delete(self._of(name))

    def _handed(self, part: int) -> str:
        return self._of(f"{self.version:06}/{self._token}-{part:06}.part")

    def hand_in(self, part: int, manifest: bytes) -> None:
        """Say what a part has written, or Exists if somebody has done so."""
        self._check()
        try:
            self._client.put(self._handed(part), manifest, if_none_match="*")
        except (Exists, Stale, Unavailable, Internal, Canceled) as error:
            # It may have happened all the same. No two have written the same shards.
            there = self.handed_in(part)
            if there is None:
                raise
            if there != manifest:
                raise Exists(f"part {part} was handed in before") from error
        if self._counts(manifest):
            return
        with contextlib.suppress(PenstockError):
            self._client.delete(self._handed(part))
        raise Exists(f"part {part} was handed in before, or by another writer, and version {self.version} is published")

    def _counts(self, manifest: bytes) -> bool:
        """Whether what was handed in is part of the version, or may become part of it."""
        try:
            _, number, published = self._look()
        except NotFound:
            return True
        if number <= self.version:
            return True
        if self.version not in published:  # but others may have built on it: the shards must stay
            raise Stale(f"version {self.version} of {self._name} was published, and removed")
        return _among(manifest, Manifest(self._client.get(f"{self._bucket}/{published[self.version]}")))

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
        self._published = True  # whatever happens, such as Ctrl-C, unless it is clear that it is not
        try:
            self._client._transport.json(call, lambda value: value)
        except PenstockError as error:
            if not isinstance(error, (Unavailable, Internal, Canceled)) or not self._is(key):
                self._published = False
                raise
        self._tidy({f"{self._name}/{shard}" for shard in shards} | {key})

    def _is(self, key: str) -> bool:
        """Whether the version that is published has this manifest."""
        try:
            return self._look()[2].get(self.version) == key
        except NotFound:  # there is no version at all
            return False

    def _tidy(self, mine: Collection[str]) -> None:
        """Remove what was made for the version and is no part of it. What stays is in nobody's way."""
        with contextlib.suppress(PenstockError):
            for prefix in (f"{self._name}/{self.version:06}/", f"{self._name}/manifest-{self.version:06}"):
                for key in [entry.key for entry in self._client.list(self._bucket, prefix=prefix)]:
                    if key not in mine:
                        self._client.delete(f"{self._bucket}/{key}")

    def abandon(self) -> None:
        """Remove what was stored, unless it was published, or may have been."""
        if self._published:
            return
        self._given_up = True
        with contextlib.suppress(PenstockError):
            mine = f"{self._name}/{self.version:06}/{self._token}-"
            keys = [entry.key for entry in self._client.list(self._bucket, prefix=mine)]
            for key in [self._manifest, *keys] if self._manifest else keys:
                with contextlib.suppress(PenstockError):
                    self._client.delete(f"{self._bucket}/{key}")
