"""Penstock as a file system for fsspec, and so for pandas, pyarrow, Hugging Face datasets, dask and others.

    fsspec.open("penstock://bucket/key")
    fsspec.filesystem("penstock", endpoint="http://127.0.0.1:7400")

A path is bucket/key. Directories are what keys have in common up to a slash: they are
there as long as something is in them, and making one below a bucket does nothing; a
bucket is a directory that can be empty. Where `a` and `a/b` are both objects, `a` is a
file that can also be listed. A key that ends with a slash cannot be reached, because
fsspec takes that slash away.

Many paths at once (cat, cat_ranges, pipe) are one request. Nothing is cached: a
listing is what the node says now.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from errno import ENOTEMPTY
from typing import IO, Any

from fsspec import AbstractFileSystem
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import AbstractBufferedFile
from fsspec.utils import isfilelike

from penstock.client import Client
from penstock.errors import Invalid, NotFound
from penstock.info import Info, Prefix
from penstock.names import Ref, split

__all__ = ["PenstockFileSystem"]

_COPY = 1 << 20
_DELETES = 8  # at once
_PIPE_BYTES = 64 << 20  # in one request


class PenstockFileSystem(AbstractFileSystem):
    """The objects of a node as files. The options are those of penstock.Client."""

    protocol = "penstock"

    def __init__(
        self,
        endpoint: str | None = None,
        token: str | None = None,
        *,
        client_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(endpoint=endpoint, token=token, client_options=client_options, **options)
        self.client = Client(endpoint, token, **(client_options or {}))

    # What is there.

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        bucket, _slash, key = path.partition("/")
        if not bucket:
            return _directory("")
        if not key:
            self.client.bucket(bucket)
            return _directory(bucket)
        try:
            return _file(self.client.stat(path))
        except NotFound:
            for _entry in self.client.list(bucket, prefix=f"{key}/", limit=1):
                return _directory(path)
            raise

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        bucket, _slash, key = path.partition("/")
        if not bucket:
            found = [_directory(bucket.name) for bucket in self.client.buckets()]
        else:
            prefix = f"{key}/" if key else ""
            entries = self.client.list(bucket, prefix=prefix, delimiter="/")
            found = [_entry(entry) for entry in entries if entry.key.rstrip("/") != key]
            if not found and key:
                found = [self.info(path)]  # a file, or not there
                if found[0]["type"] == "directory":
                    found = []
        return found if detail else [entry["name"] for entry in found]

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **kwargs: Any
    ) -> Any:
        path = self._strip_protocol(path)
        bucket, _slash, key = path.partition("/")
        if not bucket or maxdepth is not None:
            # Level by level: a flat listing could be of everything.
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **kwargs)
        prefix = f"{key}/" if key else ""
        found: dict[str, dict[str, Any]] = {}
        try:
            for info in self.client.list(bucket, prefix=prefix):
                if withdirs:
                    for directory in _directories(path, info.key[len(prefix) :]):
                        found.setdefault(directory, _directory(directory))
                if not info.key.endswith("/"):
                    found[info.name] = _file(info)
        except NotFound:
            pass  # no such bucket: as other file systems do, nothing is found
        if not found and self.isfile(path):
            found[path] = self.info(path)
        names = sorted(found)
        return {name: found[name] for name in names} if detail else names

    def modified(self, path: str) -> Any:
        return self.info(path)["modified"]

    # Bytes.

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, *, etag: str | None = None, **_: Any
    ) -> bytes:
        path = self._strip_protocol(path)
        if (start is not None and start < 0 and end is not None) or (end is not None and end < 0):
            start, end, _step = slice(start, end).indices(self.client.stat(path).size)
        start = start or 0
        if end is not None and end <= start:
            return b""
        try:
            return self.client.get(path, offset=start, length=None if end is None else end - start, if_match=etag)
        except Invalid:
            size = self.client.stat(path).size
            if size == 0 or start >= size:
                return b""  # behind the end there is nothing, as in slices
            raise

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        if not isinstance(paths, list):
            raise TypeError("paths must be a list")
        starts = starts if isinstance(starts, list) else [starts] * len(paths)
        ends = ends if isinstance(ends, list) else [ends] * len(paths)
        if len(starts) != len(paths) or len(ends) != len(paths):
            raise ValueError("paths, starts and ends must have the same length")
        return self._many(list(zip(paths, starts, ends)), on_error)

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any) -> Any:
        paths = self.expand_path(path)
        if recursive:
            paths = sorted({file for root in paths for file in self.find(root)})
        elif paths == [path] or isinstance(path, str) and paths == [self._strip_protocol(path)]:
            return self.cat_file(paths[0], **kwargs)
        items = self._many([(path, None, None) for path in paths], "raise" if on_error == "raise" else "return")
        return {path: item for path, item in zip(paths, items) if on_error != "omit" or isinstance(item, bytes)}

    def _many(self, ranges: list[tuple[str, int | None, int | None]], on_error: str) -> list[Any]:
        """Read many pieces with one request. What a batch cannot express, or refuses, is read by itself."""
        out: list[Any] = [None] * len(ranges)
        refs: dict[int, Ref] = {}
        for index, (path, start, end) in enumerate(ranges):
            first = start or 0
            if end is None or 0 <= first < end:
                try:
                    bucket, key = split(self._strip_protocol(path))
                except Invalid:
                    continue
                refs[index] = Ref(key, offset=first, length=None if end is None else end - first, bucket=bucket)
        if refs:
            items = self.client.iter_batch(next(iter(refs.values())).bucket or "", refs.values(), on_error="return")
            for item, index in zip(items, refs):  # in this order the items are read to their end
                out[index] = bytes(item) if isinstance(item, memoryview) else item
        for index, (path, start, end) in enumerate(ranges):
            try:
                if index not in refs or (isinstance(out[index], Invalid) and (start or end is not None)):
                    out[index] = self.cat_file(path, start, end)
                elif isinstance(out[index], Exception):
                    raise out[index]
            except Exception as error:
                if on_error == "raise":
                    raise
                out[index] = error
        return out

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        self.client.put(self._strip_protocol(path), value, if_none_match="*" if mode == "create" else None)

    def pipe(self, path: Any, value: bytes | None = None, **kwargs: Any) -> None:
        if not isinstance(path, dict) or kwargs.get("mode", "overwrite") != "overwrite":
            super().pipe(path, value, **kwargs)
            return
        for bucket, objects in _portions((self._strip_protocol(name), value) for name, value in path.items()):
            self.client.put_batch(bucket, objects)

    def get_file(
        self, rpath: str, lpath: Any = None, callback: Any = DEFAULT_CALLBACK, outfile: Any = None, **_: Any
    ) -> None:
        rpath = self._strip_protocol(rpath)
        if outfile is None and isfilelike(lpath):
            outfile = lpath
        try:
            reader = self.client.open(rpath)
        except (NotFound, Invalid):  # Invalid: a bucket alone
            if outfile is not None or not self.isdir(rpath):
                raise
            os.makedirs(lpath, exist_ok=True)
            return
        with reader:
            callback.set_size(reader.length)
            if outfile is not None:
                _pour(reader, outfile, callback)
                return
            os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
            with open(lpath, "wb") as file:
                _pour(reader, file, callback)

    def put_file(
        self, lpath: str, rpath: str, callback: Any = DEFAULT_CALLBACK, mode: str = "overwrite", **_: Any
    ) -> None:
        if os.path.isdir(lpath):
            return  # it will be there as soon as something is in it
        with open(lpath, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            callback.set_size(size)
            self.client.put(self._strip_protocol(rpath), file, if_none_match="*" if mode == "create" else None)
            callback.relative_update(size)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if "/" not in path1:
            self.client.bucket(path1)  # a directory: nothing to copy, if it is there
            return
        try:
            self.client.copy(path1, path2)
        except NotFound:
            if not self.isdir(path1):
                raise

    # Removing and making.

    def rm_file(self, path: str) -> None:
        self.client.delete(self._strip_protocol(path))

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        for root in self.expand_path(path):
            if not recursive:
                self.rm_file(root)
                continue
            files = self.find(root, maxdepth=maxdepth)
            with ThreadPoolExecutor(_DELETES) as pool:  # each waits for the disk; together they share the wait
                for _ in pool.map(self.rm_file, files):
                    pass
            if "/" not in root and maxdepth is None:
                self.client.delete_bucket(root)
            elif not files and not self.exists(root):
                raise FileNotFoundError(root)

    def mkdir(self, path: str, create_parents: bool = True, **properties: Any) -> None:
        bucket, _slash, key = self._strip_protocol(path).partition("/")
        if not key:
            self.client.create_bucket(bucket, **properties)
        elif create_parents:
            self.makedirs(bucket, exist_ok=True)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        bucket, _slash, key = self._strip_protocol(path).partition("/")
        try:
            self.client.create_bucket(bucket)
        except FileExistsError:
            if not key and not exist_ok:
                raise

    def rmdir(self, path: str) -> None:
        path = self._strip_protocol(path)
        if "/" not in path:
            self.client.delete_bucket(path)
        elif self.isdir(path):
            raise OSError(ENOTEMPTY, "the directory is not empty", path)
        else:
            raise FileNotFoundError(path)

    # Files.

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: Any = None,
        **kwargs: Any,
    ) -> PenstockFile:
        return PenstockFile(self, path, mode, block_size, autocommit=autocommit, cache_options=cache_options, **kwargs)


class PenstockFile(AbstractBufferedFile):
    """A file that is read in ranges of one state of an object, or written as a whole when it is closed.

    What is written goes to a temporary file first. If the with block around it is left
    by an exception, nothing is stored.
    """

    def __init__(
        self, fs: PenstockFileSystem, path: str, mode: str = "rb", block_size: Any = None, **kwargs: Any
    ) -> None:
        self._spool: IO[bytes] | None = None
        if mode == "xb" and fs.exists(path):
            raise FileExistsError(path)
        super().__init__(fs, path, mode, block_size or "default", **kwargs)

    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = self.fs.cat_file(self.path, start, end, etag=self.details.get("etag"))
        return data

    def _initiate_upload(self) -> None:
        self._spool = tempfile.SpooledTemporaryFile(max_size=8 << 20)
        if self.mode == "ab":
            try:
                self.fs.get_file(self.path, outfile=self._spool)
            except FileNotFoundError:
                pass

    def _upload_chunk(self, final: bool = False) -> None:
        assert self._spool is not None
        self._spool.write(self.buffer.getbuffer())
        if final and self.autocommit:
            self.commit()

    def commit(self) -> None:
        """Store what was written."""
        if self._spool is None:
            return
        try:
            self._spool.seek(0)
            self.fs.client.put(self.path, self._spool, if_none_match="*" if self.mode == "xb" else None, **self.kwargs)
        finally:
            self.discard()

    def discard(self) -> None:
        """Forget what was written."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None and self.writable():
            self.discard()
            self.closed = True
        self.close()


def _entry(entry: Info | Prefix) -> dict[str, Any]:
    return _file(entry) if isinstance(entry, Info) else _directory(f"{entry.bucket}/{entry.key.removesuffix('/')}")


def _directory(name: str) -> dict[str, Any]:
    return {"name": name, "size": 0, "type": "directory"}


def _file(info: Info) -> dict[str, Any]:
    return {
        "name": info.name,
        "size": info.size,
        "type": "file",
        "etag": info.etag,
        "modified": info.modified,
        "version": info.version,
        "crc32": info.crc32,
        "content_type": info.content_type,
    }


def _directories(root: str, below: str) -> Iterator[str]:
    """root, and the directories between it and the object that is so far below it."""
    yield root
    at = below.find("/")
    while at >= 0:
        yield f"{root}/{below[:at]}"
        at = below.find("/", at + 1)


def _portions(objects: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Objects by bucket, in portions that are good for one request."""
    buckets: dict[str, dict[str, bytes]] = {}
    sizes: dict[str, int] = {}
    for name, value in objects:
        bucket, _slash, key = name.partition("/")
        buckets.setdefault(bucket, {})[key] = value
        sizes[bucket] = sizes.get(bucket, 0) + len(value)
        if sizes[bucket] >= _PIPE_BYTES:
            yield bucket, buckets.pop(bucket)
            del sizes[bucket]
    yield from buckets.items()


def _pour(reader: Any, out: IO[bytes], callback: Any) -> None:
    buffer = bytearray(_COPY)
    view = memoryview(buffer)
    while n := reader.readinto(view):
        out.write(view[:n])
        callback.relative_update(n)
