"""Errors: their kinds, what else they are, and that they travel."""

from __future__ import annotations

import copy
import gc
import pickle
import socket
from collections.abc import Callable

import pytest
from fakenode import FakeNode

import penstock
from penstock import Client, errors

ALSO = {
    "NotFound": FileNotFoundError,
    "Exists": FileExistsError,
    "Denied": PermissionError,
    "Invalid": ValueError,
    "Unavailable": ConnectionError,
}


def test_kinds() -> None:
    names = [
        "Internal",
        "NotFound",
        "Exists",
        "Stale",
        "Denied",
        "Invalid",
        "Busy",
        "Corrupt",
        "Unavailable",
        "Canceled",
    ]
    assert [kind.kind for kind in errors.KINDS] == names
    for name in names:
        kind = getattr(penstock, name)
        assert errors.of_kind(name) is kind and issubclass(kind, penstock.PenstockError)
        assert issubclass(kind, ALSO.get(name, Exception))
    assert errors.of_kind("Unheard") is penstock.Internal
    assert issubclass(penstock.Timeout, penstock.Unavailable) and issubclass(penstock.Timeout, TimeoutError)


@pytest.mark.parametrize("name", errors.__all__)
def test_errors_travel(name: str) -> None:
    kind = getattr(errors, name)
    if not isinstance(kind, type):
        return
    error = kind("what happened")  # from a message alone, as torch makes them anew
    error.attempts, error.retry_after = 3, 1.5
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (
            type(again) is kind and str(again) == "what happened" == again.message and again.args == ("what happened",)
        )
        assert (again.attempts, again.retry_after, again.kind) == (3, 1.5, error.kind)


def test_sample_error() -> None:
    error = penstock.SampleError(
        "it is gone", kind="NotFound", dataset="cats", version=3, index=7, key="0007", shard="data/1.tar", offset=512
    )
    assert str(error) == "cats@3: sample 7, key 0007, shard data/1.tar, offset 512: it is gone"
    again = pickle.loads(pickle.dumps(error))
    assert vars(again) == vars(error) and str(again) == str(error) and again.kind == "NotFound"
    assert str(penstock.SampleError("alone")) == "alone"


def test_put_batch_error() -> None:
    failed = {"a": penstock.Invalid("bad"), "b": penstock.Denied("no")}
    error = pickle.loads(pickle.dumps(penstock.PutBatchError(failed=failed)))
    assert str(error) == "2 objects were not stored, among them a: bad"
    assert [type(cause) for cause in error.failed.values()] == [
        penstock.Invalid,
        penstock.Denied,
    ] and error.kind == "Internal"


def test_errors_are_no_garbage(client: Client, bucket: str) -> None:
    """Whoever catches one is rid of it, and of all the frames it came through, at once."""

    def silent(connection: socket.socket, head: bytes) -> None:
        connection.recv(1)

    def cut(connection: socket.socket, head: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfew")
        connection.shutdown(socket.SHUT_RDWR)

    def caught(act: Callable[[], object]) -> int:
        gc.collect()
        gc.disable()
        try:
            act()
        except penstock.PenstockError:
            pass
        finally:
            gc.enable()
        return gc.collect()

    with FakeNode(silent) as slow, FakeNode(cut) as broken:
        waiting, cutting = Client(slow.endpoint, timeout=0.1), Client(broken.endpoint, attempts=2)
        for act in (
            lambda: client.get(f"{bucket}/none"),
            lambda: client.stat(f"{bucket}/none"),
            lambda: client.batch(bucket, ["none"]),
            lambda: client.batch("no-such-bucket", ["none"]),
            lambda: client.get("nonsense"),
            lambda: Client("http://127.0.0.1:1").buckets(),
            lambda: waiting.get("bucket/k"),
            lambda: waiting.batch("bucket", ["k"]),
            lambda: cutting.get("bucket/k"),
            lambda: cutting.buckets(),
            lambda: cutting.batch("bucket", ["k"]),
        ):
            caught(act)  # the first time modules may be loaded
            assert caught(act) == 0, act
        waiting.close()
        cutting.close()
