"""Listings: the entries of a bucket, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from penstock.connection import Garbled
from penstock.errors import Internal, Invalid, Unavailable
from penstock.info import DatasetInfo, Info, Prefix
from penstock.names import check_bucket
from penstock.transport import Call, Transport

__all__ = ["datasets", "entries"]

_PAGE = 1000


@dataclass(frozen=True)
class _Page:
    entries: list[Info | Prefix]
    next: str | None  # where the next page begins; None on the last
    incomplete: bool

    @classmethod
    def from_json(cls, bucket: str, value: dict[str, object]) -> _Page:
        objects, prefixes = value.get("entries"), value.get("prefixes")
        if not isinstance(objects, list) or not isinstance(prefixes, list):
            raise Garbled("it is no page of a listing")
        found: list[Info | Prefix] = [Info.from_json(bucket, value) for value in objects]
        if prefixes:
            found += [Prefix(bucket, str(prefix)) for prefix in prefixes]
            found.sort(key=_order)
        return cls(found, str(value.get("next", "")) if value.get("truncated") else None, bool(value.get("incomplete")))


def entries(
    transport: Transport,
    bucket: str,
    prefix: str,
    delimiter: str,
    after: str,
    limit: int | None,
    allow_incomplete: bool,
) -> Iterator[Info | Prefix]:
    """The entries of a bucket in byte order of their keys, as they are asked for."""
    check_bucket(bucket)
    if limit is not None and limit < 0:
        raise Invalid(f"limit {limit} must not be negative")
    return _entries(
        transport, bucket, {"prefix": prefix, "delimiter": delimiter, "after": after}, limit, allow_incomplete
    )


def _entries(
    transport: Transport, bucket: str, query: dict[str, str], limit: int | None, allow_incomplete: bool
) -> Iterator[Info | Prefix]:
    incomplete = False
    while limit is None or limit > 0:
        asked = {name: value for name, value in query.items() if value}
        asked["limit"] = str(_PAGE if limit is None else min(limit, _PAGE))
        try:
            path = f"/v1/objects/{bucket}?{urlencode(asked)}"
        except UnicodeEncodeError:
            raise Invalid(f"{asked} cannot be written as UTF-8") from None
        page = transport.json(Call("GET", path, f"bucket {bucket}"), lambda value: _Page.from_json(bucket, value))
        incomplete = incomplete or page.incomplete
        yield from page.entries
        if page.next is None:
            break
        if page.next.encode() <= query["after"].encode():
            raise transport.error(
                Internal, f"listing {bucket} does not get on: after {query['after']!r} comes {page.next!r}"
            )
        query["after"] = page.next
        if limit is not None:
            limit -= len(page.entries)
    if incomplete and not allow_incomplete:
        raise transport.error(
            Unavailable, f"the listing of {bucket} may lack entries: a disk of the node cannot be asked"
        )


def datasets(transport: Transport) -> Iterator[DatasetInfo]:
    """The datasets that have versions, in the order of their names, as they are asked for."""

    def parse(value: dict[str, object]) -> tuple[list[DatasetInfo], str]:
        found = value.get("datasets")
        if not isinstance(found, list):
            raise Garbled("it is no page of a listing")
        return [DatasetInfo.from_json(one) for one in found], str(value.get("next", ""))

    after = ""
    while True:
        query = urlencode({"limit": str(_PAGE), **({"after": after} if after else {})})
        found, following = transport.json(Call("GET", f"/v1/datasets?{query}", "the datasets"), parse)
        yield from found
        if not following:
            return
        if following <= after:
            raise transport.error(Internal, f"listing datasets does not get on: after {after!r} comes {following!r}")
        after = following


def _order(entry: Info | Prefix) -> bytes:
    return entry.key.encode("utf-8", "surrogatepass")
