"""Penstock: storage and cache tier for machine learning.

    import penstock
    client = penstock.Client()
    client.put("photos/cat.jpg", data)
    client.get("photos/cat.jpg")
    client.batch("photos", ["cat.jpg", "dog.jpg"])

    ds = penstock.open("imagenet@3")
    ds[42]["jpg"]
    with penstock.create("mine", bucket="photos") as w:
        w.add("0001", {"jpg": data, "cls": 7})

A Client talks to one node. Errors are subclasses of PenstockError, one for each kind.
Nothing is opened when the package is imported or a client is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.client import Client
from penstock.errors import (
    Busy,
    Canceled,
    Corrupt,
    Denied,
    Exists,
    Internal,
    Invalid,
    NotFound,
    PenstockError,
    PutBatchError,
    SampleError,
    Stale,
    Timeout,
    Unavailable,
)
from penstock.info import Bucket, DatasetInfo, Info, Prefix
from penstock.names import Ref
from penstock.reader import Reader
from penstock.wire import Upload

if TYPE_CHECKING:
    from penstock.dataset import Dataset
    from penstock.mixture import mix
    from penstock.opening import open
    from penstock.writer import create

__version__ = "0.1.0"

__all__ = [
    "Bucket",
    "Busy",
    "Canceled",
    "Client",
    "Corrupt",
    "Dataset",
    "DatasetInfo",
    "Denied",
    "Exists",
    "Info",
    "Internal",
    "Invalid",
    "NotFound",
    "PenstockError",
    "Prefix",
    "PutBatchError",
    "Reader",
    "Ref",
    "SampleError",
    "Stale",
    "Timeout",
    "Unavailable",
    "Upload",
    "create",
    "mix",
    "open",
]

# Who only wants a client does not pay for datasets.
_LATER = {
    "Dataset": "penstock.dataset",
    "create": "penstock.writer",
    "mix": "penstock.mixture",
    "open": "penstock.opening",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_LATER[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
