"""Many objects in one request, in either direction."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from penstock.connection import Garbled
from penstock.errors import Internal, Invalid, PenstockError, PutBatchError, Timeout, Unavailable, of_kind
from penstock.names import Ref, check_bucket
from penstock.payload import Payload
from penstock.transport import Call, Failure, Transport, backoff
from penstock.wire import OBJECTS_TYPE, REFS_TYPE, BatchReader, Item, Upload, encode_objects, encode_refs

__all__ = ["OnError", "Wanted", "put_batch", "read_batch", "read_wanted"]

# What becomes of an item that cannot be read: raised, or given in its place.
OnError = Literal["raise", "return"]

_MAX_REFS = 16384  # in one request
_MAX_SEGMENT = 1 << 30  # bytes of a single item; larger objects are for open


def read_batch(transport: Transport, bucket: str, refs: Sequence[str | Ref], on_error: OnError) -> Iterator[list[Item]]:
    """One item for each reference, in their order, as many at a time as come together.

    If an answer breaks off, the rest is asked for again, as often as other requests
    are repeated. What still does not come fails with the same error.
    """
    check_bucket(bucket)
    if on_error not in ("raise", "return"):
        raise Invalid(f'on_error is "raise" or "return", not {on_error!r}')
    parts = read_wanted(transport, f"from {bucket}", _Refs(bucket, refs))
    return _strictly(parts) if on_error == "raise" else parts


class Wanted(Protocol):
    """What a batch asks for. A caller that knows its references well encodes them faster than one Ref after the other."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> Wanted: ...

    def encode(self) -> bytes:
        """The body of the request."""

    def name(self, index: int, /) -> str:
        """What a reference is called, for messages."""

    def check(self, index: int, size: int, crc: int, /) -> str:
        """Why an item is not what was asked for; nothing if it is."""

    @property
    def checked(self) -> bool:
        """Whether check has anything to say."""


class _Refs:
    """References one by one."""

    def __init__(self, bucket: str, refs: Sequence[str | Ref]) -> None:
        self._bucket, self._refs = bucket, refs

    def __len__(self) -> int:
        return len(self._refs)

    def __getitem__(self, part: slice) -> _Refs:
        return _Refs(self._bucket, self._refs[part])

    def encode(self) -> bytes:
        return encode_refs(self._bucket, self._refs)

    def name(self, index: int) -> str:
        ref = self._refs[index]
        if isinstance(ref, str):
            return f"{self._bucket}/{ref}"
        return f"{ref.bucket or self._bucket}/{ref.key}" + (f"?member={ref.member}" if ref.member else "")

    def check(self, index: int, size: int, crc: int) -> str:
        ref = self._refs[index]
        if isinstance(ref, str) or ref.crc32 is None or (ref.crc32 == crc and ref.length in (None, size)):
            return ""
        return f"{self.name(index)} is not what was asked for: {size} bytes with CRC-32 {crc:08x}, not {ref.crc32:08x}"

    @property
    def checked(self) -> bool:
        if set(map(type, self._refs)) == {str}:  # the most common, and several times as fast to find out
            return False
        return any(isinstance(ref, Ref) and ref.crc32 is not None for ref in self._refs)


def _strictly(parts: Generator[list[Item], None, None]) -> Iterator[list[Item]]:
    """The items up to the first that failed, whose error is raised."""
    for items in parts:
        if set(map(type, items)) == {memoryview}:
            yield items
            continue
        error = next(item for item in items if isinstance(item, PenstockError))
        yield items[: items.index(error)]
        parts.close()
        try:
            raise error
        finally:
            del error, items  # or else the error holds this frame and the frame the error, until the collector comes


def read_wanted(transport: Transport, where: str, refs: Wanted) -> Generator[list[Item], None, None]:
    """One item for each reference; an error in its place. They come in lists. where is for messages."""
    done, attempt, heard = 0, 0, False
    while done < len(refs):
        came, broken = yield from _request(transport, where, refs[done : done + _MAX_REFS])
        done += came
        attempt = 0 if came else attempt + 1
        if broken is None:
            continue
        # A node that was there a moment ago may come back; nobody waits for one that never was.
        heard = heard or broken.began
        if not (broken.again and heard) or attempt >= transport.attempts:
            if done == len(refs):  # they are all there, but the answer does not end as it should
                raise broken.error
            yield [broken.error] * (len(refs) - done)
            return
        time.sleep(backoff(max(attempt, 1)))


@dataclass(frozen=True)
class _Broken:
    """Why an answer breaks off, or never begins."""

    error: PenstockError
    began: bool
    again: bool

    @classmethod
    def off(cls, failure: Failure) -> _Broken:
        return cls(failure.error, began=True, again=failure.again)


def _request(transport: Transport, where: str, refs: Wanted) -> Generator[list[Item], None, tuple[int, _Broken | None]]:
    """Make one request and give the items that come. Return how many those were, and why no more came."""
    what = f"a batch of {len(refs)} {where}"
    call = Call("POST", "/v1/batch", what, {"Content-Type": REFS_TYPE}, Payload.of(refs.encode()))
    try:
        answer = transport.run(call, lambda answer: answer)
    except PenstockError as error:
        # What can be repeated was; only that nobody answers may be different in a moment.
        again = isinstance(error, Unavailable) and not isinstance(error, Timeout) and error.attempts == 1
        return 0, _Broken(error.with_traceback(None), began=False, again=again)
    reader = BatchReader(
        answer,
        len(refs),
        _MAX_SEGMENT,
        memory=transport.memory,
        name=refs.name,
        where=f" ({transport.endpoint})",
        check=refs.check if refs.checked else None,
    )
    try:
        yield from reader.segments()
        answer.close()
    except PenstockError as error:
        return reader.read, _Broken(error.with_traceback(None), began=True, again=False)
    except (OSError, Garbled) as cause:
        return reader.read, _Broken.off(transport.failure(cause, f"{reader.read} of {len(refs)} items have come"))
    finally:
        answer.abort()  # nothing, if it was closed
    return reader.read, None


def put_batch(transport: Transport, bucket: str, objects: Sequence[Upload]) -> None:
    """Store objects with one request and return when all of them are durable."""
    check_bucket(bucket)
    pieces = encode_objects(objects)
    what = f"{len(objects)} objects for {bucket}"
    call = Call("POST", f"/v1/put-batch?bucket={bucket}", what, {"Content-Type": OBJECTS_TYPE}, Payload.of(*pieces))
    stored, failed = transport.json(call, _outcome)
    if stored + len(failed) != len(objects):
        raise transport.error(Internal, f"the node answers for {stored + len(failed)} objects of {len(objects)}")
    if failed:
        raise PutBatchError(failed=failed)


def _outcome(value: dict[str, object]) -> tuple[int, dict[str, PenstockError]]:
    stored, failed = value.get("stored"), value.get("failed")
    if not isinstance(stored, int) or not isinstance(failed, list) or not all(isinstance(f, dict) for f in failed):
        raise Garbled("it does not say what was stored")
    return stored, {str(f.get("key")): of_kind(str(f.get("kind")))(str(f.get("message", ""))) for f in failed}
