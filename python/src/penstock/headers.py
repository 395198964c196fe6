"""The headers that say under which conditions, and with what, an object is written."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.errors import Invalid
from penstock.names import object_path

__all__ = ["condition_headers", "copy_headers", "metadata_headers", "plain"]

_META_KEY = re.compile(r"[a-z0-9._-]+", re.ASCII)


def plain(value: str) -> bool:
    """Whether a value comes out of a header as it went in."""
    if value.strip() != value or any((ch < " " and ch != "\t") or ch == "\x7f" for ch in value):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def condition_headers(if_match: str | None, if_none_match: str | None) -> dict[str, str]:
    headers = {}
    for name, tag in (("If-Match", if_match), ("If-None-Match", if_none_match)):
        if tag is None:
            continue
        if not tag or not plain(tag) or '"' in tag or "," in tag:
            raise Invalid(f"{tag!r} is not an ETag")
        headers[name] = tag if tag == "*" else f'"{tag}"'
    return headers


def metadata_headers(content_type: str, metadata: Mapping[str, str]) -> dict[str, str]:
    headers = {}
    if content_type:
        if not plain(content_type):
            raise Invalid(f"content type {content_type!r} cannot be sent")
        headers["Content-Type"] = content_type
    for key, value in metadata.items():
        if not _META_KEY.fullmatch(key):
            raise Invalid(f"metadata key {key!r} may hold only a-z, 0-9, dash, dot and underscore")
        if not plain(value):
            raise Invalid(f"metadata {key}: the value {value!r} cannot be sent")
        headers[f"X-Penstock-Meta-{key}"] = value
    return headers


def copy_headers(bucket: str, key: str) -> dict[str, str]:
    return {"X-Penstock-Copy-Source": object_path(bucket, key).removeprefix("/v1/objects")}
