"""What an answer that is not a success means."""

from __future__ import annotations

import json

from penstock.answer import Answer
from penstock.errors import (
    Busy,
    Denied,
    Exists,
    Internal,
    Invalid,
    NotFound,
    PenstockError,
    Stale,
    Unavailable,
    of_kind,
)

__all__ = ["decode", "refusal"]

_MAX_TEXT = 64 << 10

# Where an answer does not name the kind: those of proxies on the way.
_BY_STATUS: dict[int, type[PenstockError]] = {
    304: Stale,
    400: Invalid,
    401: Denied,
    403: Denied,
    404: NotFound,
    405: Invalid,
    408: Unavailable,
    409: Exists,
    412: Stale,
    413: Invalid,
    416: Invalid,
    429: Busy,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
    507: Unavailable,
}


def refusal(answer: Answer, what: str, endpoint: str) -> PenstockError:
    """The error that an answer stands for. It names the endpoint."""
    text = answer.read(_MAX_TEXT)
    kind, message = _said(answer, text)
    if answer.status == 304:
        message = f"{what} still has that ETag"
    elif answer.status == 416 and "content-range" in answer.headers:
        message = f"{what}: the range lies outside an object of {answer.headers['content-range'].removeprefix('bytes */')} bytes"
    elif not message:
        message = f"{what}: {answer.reason.lower() or answer.status}"
        if kind is NotFound:
            message = f"{what} does not exist"
        elif kind is Internal:
            message = f"{what}: unexpected answer {answer.status} {answer.reason}; is this a Penstock node?"
        elif plain := text[:200].decode("utf-8", "replace").strip():
            message = f"{message}: {plain}"  # what a proxy says, or a TLS port to plain HTTP
    if kind is Denied and answer.status == 401:
        message += "; set PENSTOCK_TOKEN, or pass token="
    error = kind(f"{message} ({endpoint})")
    after = answer.headers.get("retry-after", "")
    if after.isascii() and after.isdigit():
        error.retry_after = float(min(int(after[:9]), 3600))
    return error


def _said(answer: Answer, text: bytes) -> tuple[type[PenstockError], str]:
    """The kind, and the message if the node has one."""
    said = (decode(text) or {}).get("error")
    if isinstance(said, dict) and said.get("kind"):
        return of_kind(str(said["kind"])), str(said.get("message", ""))
    name, _, message = answer.headers.get("x-penstock-error", "").partition(": ")  # HEAD has no body to say it in
    if name:
        return of_kind(name), message
    return _BY_STATUS.get(answer.status, Internal), ""


def decode(text: bytes) -> dict[str, object] | None:
    """A JSON object, or None if it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
