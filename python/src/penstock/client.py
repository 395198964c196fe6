"""The client of one node: objects, buckets and listings."""

from __future__ import annotations

import base64
import builtins
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Literal, overload
from urllib.parse import urlencode

from penstock.answer import Answer
from penstock.batch import OnError, put_batch, read_batch
from penstock.connection import Garbled
from penstock.endpoint import DEFAULT_ENDPOINT, Endpoint
from penstock.errors import Corrupt, Invalid, NotFound
from penstock.headers import condition_headers, copy_headers, metadata_headers, plain
from penstock.info import Bucket, DatasetInfo, Info, Prefix
from penstock.listing import datasets, entries
from penstock.names import Ref, bucket_path, object_path, split
from penstock.payload import Buffer, Payload, Source
from penstock.reader import Reader, range_header
from penstock.transport import Call, Transport
from penstock.wire import Item, Upload

__all__ = ["Client"]


class Client:
    """Talks to one node. It connects when it is first used, and may be used by many threads.

    endpoint and token default to PENSTOCK_ENDPOINT and PENSTOCK_TOKEN, and the endpoint
    to http://127.0.0.1:7400. A key pair, the one that S3 clients have, does as well as a
    token. timeout is how many seconds the node may take to answer,
    and for each MiB that is sent or received; no wait is longer. attempts is how often
    a request that may be repeated is sent in all, 1 turns repeating off. ca_file has
    the certificates to trust for https, in place of the system's. Proxies in the
    environment are not used: a node is reached directly.

    A client can be pickled and is safe across fork: every process opens connections of
    its own. The pickle holds the token, or else workers that are spawned could not use
    it; keep it as you keep the token.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        token: str | None = None,
        *,
        access_key: str | None = None,
        secret_key: str | None = None,
        timeout: float = 60.0,
        attempts: int = 5,
        ca_file: str | os.PathLike[str] | None = None,
    ) -> None:
        if endpoint is None:
            endpoint = os.environ.get("PENSTOCK_ENDPOINT") or DEFAULT_ENDPOINT
        if (access_key is None) != (secret_key is None) or (access_key is not None and token):
            raise Invalid("give a token, or access_key and secret_key, or none of them")
        if token is None:
            token = os.environ.get("PENSTOCK_TOKEN", "") if access_key is None else ""
        if not plain(token):
            raise Invalid("the token holds a line break or another character that cannot be sent")
        if not timeout > 0 or attempts < 1:
            raise Invalid(f"timeout {timeout} and attempts {attempts} must be above zero")
        self._options: dict[str, Any] = {
            "endpoint": endpoint,
            "token": token,
            "access_key": access_key,
            "secret_key": secret_key,
            "timeout": float(timeout),
            "attempts": attempts,
            "ca_file": None if ca_file is None else os.fspath(ca_file),
        }
        authorization = f"Bearer {token}" if token else ""
        if access_key is not None:
            authorization = "Basic " + base64.b64encode(f"{access_key}:{secret_key}".encode()).decode()
        self._transport = Transport(Endpoint.parse(endpoint), authorization, float(timeout), attempts, self._options["ca_file"])

    @property
    def endpoint(self) -> str:
        """Where the client connects to."""
        return str(self._transport.endpoint)

    def __repr__(self) -> str:
        return f"penstock.Client({self.endpoint!r})"  # without the token

    def __getstate__(self) -> dict[str, Any]:
        return self._options

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop idle connections and spare memory. Requests under way go on, and the client stays usable."""
        self._transport.close()

    # Objects. A name is "bucket/key".

    def put(
        self,
        name: str,
        data: Buffer | BinaryIO,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
    ) -> Info:
        """Store an object and return when it is durable.

        data is something bytes-like, or a file opened in binary mode, from where it
        stands. A put with a condition is sent once only; if it fails with Unavailable
        it may have happened all the same. if_none_match="*" writes only if there is
        no such object, if_match=etag only over that state of it.
        """
        bucket, key = split(name)
        headers = {**condition_headers(if_match, if_none_match), **metadata_headers(content_type, metadata or {})}
        source = Source(data)
        if source.crc is not None:
            headers["X-Penstock-Crc32"] = f"{source.crc:08x}"
        info = self._write(bucket, key, headers, source.payload, once=if_match is not None or if_none_match is not None)
        if (info.size, info.crc32) != (source.size, source.crc):
            message = f"{name}: sent {source.size} bytes with CRC-32 {source.crc:08x}, the node stored {info.size} with {info.crc32:08x}"
            raise self._transport.error(Corrupt, message)
        return info

    def copy(self, source: str, target: str, *, if_match: str | None = None, if_none_match: str | None = None) -> Info:
        """Store an object under a second name, without its bytes leaving the node.

        Content type and metadata go with it. The conditions are on what is there under
        target.
        """
        bucket, key = split(target)
        headers = {**condition_headers(if_match, if_none_match), **copy_headers(*split(source))}
        return self._write(bucket, key, headers, None, once=if_match is not None or if_none_match is not None)

    def _write(self, bucket: str, key: str, headers: Mapping[str, str], payload: Payload | None, *, once: bool) -> Info:
        call = Call("PUT", object_path(bucket, key), f"{bucket}/{key}", headers, payload or Payload.of(), once)
        return self._transport.json(call, lambda value: Info.from_json(bucket, value))

    def get(
        self,
        name: str,
        *,
        offset: int = 0,
        length: int | None = None,
        member: str | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
    ) -> bytes:
        """The bytes of an object, or of a range of it; a negative offset counts from the end.

        member is the path of a file inside an object that is a tar. If a condition does
        not hold it fails with Stale. A whole object is checked against its CRC-32. Use
        open for one that may not fit into memory.
        """

        def consume(answer: Answer) -> bytes:
            with Reader(self._transport, answer, bucket, key, offset, length) as reader:
                return reader.whole()

        bucket, key = split(name)
        call = self._get(bucket, key, offset, length, member, condition_headers(if_match, if_none_match))
        return self._transport.run(call, consume)

    def open(self, name: str, *, offset: int = 0, length: int | None = None, member: str | None = None) -> Reader:
        """A reader of an object as it is now, or of a range of it: a raw binary file, read from front to back."""
        bucket, key = split(name)
        call = self._get(bucket, key, offset, length, member, {})
        return self._transport.run(call, lambda answer: Reader(self._transport, answer, bucket, key, offset, length))

    def _get(
        self, bucket: str, key: str, offset: int, length: int | None, member: str | None, conditions: Mapping[str, str]
    ) -> Call:
        return Call(
            "GET", _member_path(bucket, key, member), f"{bucket}/{key}", {**range_header(offset, length), **conditions}
        )

    def stat(self, name: str, *, member: str | None = None) -> Info:
        """What is known about an object, or about a file inside one that is a tar."""

        def parse(answer: Answer) -> Info:
            if answer.length is None:
                raise Garbled("the answer does not say how large it is")
            return Info.from_headers(bucket, key, answer.headers, answer.length)

        bucket, key = split(name)
        return self._transport.head(Call("HEAD", _member_path(bucket, key, member), name), parse)

    def delete(self, name: str, *, if_match: str | None = None) -> None:
        """Remove an object for good, or fail with NotFound."""
        bucket, key = split(name)
        headers = condition_headers(if_match, None)
        self._delete(Call("DELETE", object_path(bucket, key), name, headers, once=if_match is not None))

    def _delete(self, call: Call) -> None:
        try:
            self._transport.head(call, lambda _: None)
        except NotFound as error:
            if error.attempts == 1:
                raise
            # An attempt broke off and a further one finds nothing: it is gone, as was asked.

    @overload
    def list(
        self, bucket: str, *, prefix: str = ..., after: str = ..., limit: int | None = ..., allow_incomplete: bool = ...
    ) -> Iterator[Info]: ...

    @overload
    def list(
        self,
        bucket: str,
        *,
        prefix: str = ...,
        delimiter: str,
        after: str = ...,
        limit: int | None = ...,
        allow_incomplete: bool = ...,
    ) -> Iterator[Info | Prefix]: ...

    def list(
        self,
        bucket: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        after: str = "",
        limit: int | None = None,
        allow_incomplete: bool = False,
    ) -> Iterator[Any]:
        """The objects of a bucket in the byte order of their keys, page by page as they are asked for.

        With a delimiter, keys that hold it behind the prefix are folded into one Prefix.
        If the node cannot ask one of its disks the listing fails with Unavailable when
        everything else has come, unless allow_incomplete is set.
        """
        return entries(self._transport, bucket, prefix, delimiter, after, limit, allow_incomplete)

    # Many objects at once.

    @overload
    def batch(
        self, bucket: str, refs: Iterable[str | Ref], *, on_error: Literal["raise"] = ...
    ) -> builtins.list[memoryview]: ...

    @overload
    def batch(self, bucket: str, refs: Iterable[str | Ref], *, on_error: OnError) -> builtins.list[Item]: ...

    def batch(self, bucket: str, refs: Iterable[str | Ref], *, on_error: OnError = "raise") -> builtins.list[Any]:
        """Read many objects with one request: a list with one item for each reference, in their order.

        A reference is a key, or a Ref for a member or a range. An item is a memoryview
        of its bytes, verified and yours to change; neighbours share memory, so keep
        bytes(item) if you keep a few of many. If one cannot be read its error is raised;
        with on_error="return" it stands in its place.
        """
        return [item for items in self._batch(bucket, refs, on_error) for item in items]

    @overload
    def iter_batch(
        self, bucket: str, refs: Iterable[str | Ref], *, on_error: Literal["raise"] = ...
    ) -> Iterator[memoryview]: ...

    @overload
    def iter_batch(self, bucket: str, refs: Iterable[str | Ref], *, on_error: OnError) -> Iterator[Item]: ...

    def iter_batch(self, bucket: str, refs: Iterable[str | Ref], *, on_error: OnError = "raise") -> Iterator[Any]:
        """As batch, but one item after the other as they come, without memory for all of them."""
        return (item for items in self._batch(bucket, refs, on_error) for item in items)

    def _batch(self, bucket: str, refs: Iterable[str | Ref], on_error: OnError) -> Iterator[builtins.list[Item]]:
        if isinstance(refs, str):  # an iterable of strings too, but not what is meant
            raise Invalid(f"a batch takes a list of keys, not the single key {refs!r}")
        return read_batch(self._transport, bucket, builtins.list(refs), on_error)

    def put_batch(self, bucket: str, objects: Mapping[str, Buffer] | Iterable[tuple[str, Buffer] | Upload]) -> None:
        """Store many small objects with one request, and return when all of them are durable.

        objects are keys and bytes, or Uploads with a content type. If some could not be
        stored it fails with PutBatchError, and the others are. After any other error
        any of them may be stored, each of them whole.
        """
        pairs = objects.items() if isinstance(objects, Mapping) else objects
        put_batch(self._transport, bucket, [Upload(*pair) for pair in pairs])

    # Buckets.

    def create_bucket(self, bucket: str, **properties: object) -> Bucket:
        """Make a bucket; Exists if there is one. The properties are those of the HTTP API, such as quota."""
        return self._bucket("PUT", bucket, properties)

    def update_bucket(self, bucket: str, **properties: object) -> Bucket:
        """Change properties of a bucket; None sets one back."""
        return self._bucket("PATCH", bucket, properties)

    def bucket(self, bucket: str) -> Bucket:
        """What is known about a bucket."""
        return self._bucket("GET", bucket, None)

    def _bucket(self, method: str, bucket: str, properties: Mapping[str, object] | None) -> Bucket:
        payload = None if properties is None else Payload.of(json.dumps(properties).encode())
        # A repeated PUT would find the bucket the first one made.
        call = Call(
            method, bucket_path(bucket), f"bucket {bucket}", _JSON if payload else {}, payload, once=method == "PUT"
        )
        return self._transport.json(call, Bucket.from_json)

    def buckets(self) -> builtins.list[Bucket]:
        """All buckets the caller may see, in the order of their names."""

        def parse(value: Mapping[str, object]) -> builtins.list[Bucket]:
            found = value.get("buckets")
            if not isinstance(found, builtins.list):
                raise Garbled("it names no buckets")
            return [Bucket.from_json(bucket) for bucket in found]

        return self._transport.json(Call("GET", "/v1/buckets", "the buckets"), parse)

    def datasets(self) -> Iterator[DatasetInfo]:
        """The datasets that have versions, in the order of their names. penstock.open opens one."""
        return datasets(self._transport)

    def delete_bucket(self, bucket: str) -> None:
        """Remove a bucket, which must be empty."""
        self._delete(Call("DELETE", bucket_path(bucket), f"bucket {bucket}"))


_JSON = {"Content-Type": "application/json"}


def _member_path(bucket: str, key: str, member: str | None) -> str:
    path = object_path(bucket, key)
    return path if member is None else f"{path}?{urlencode({'member': member})}"
