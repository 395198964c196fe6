"""Batches: order, errors in their places, memory, and nodes that go away in the middle."""

from __future__ import annotations

import gc
import random
import socket
import time
from pathlib import Path
from typing import Literal

import fakenode
import pytest
from conftest import Node
from fakenode import FakeNode, chunked
from wireforms import parse_refs

import penstock
from penstock import Client, Ref, Upload
from penstock.memory import Memory


def test_items_come_in_the_order_they_were_asked_for(client: Client, bucket: str) -> None:
    objects = {
        f"k{i}": random.randbytes(random.choice([0, 1, 100, 4096, 70_000, 200_000, 2_000_000])) for i in range(60)
    }
    client.put_batch(bucket, objects)
    for _ in range(5):
        keys = random.choices(list(objects), k=150)
        assert client.batch(bucket, keys) == [objects[key] for key in keys]
        assert list(client.iter_batch(bucket, iter(keys))) == [objects[key] for key in keys]
    assert client.batch(bucket, []) == []


def test_large_objects_in_a_batch(client: Client, bucket: str) -> None:
    """The node answers these with a body that ends with the connection."""
    objects = {f"k{i}": random.randbytes(5_000_000 + i) for i in range(4)}
    for key, data in objects.items():
        client.put(f"{bucket}/{key}", data)
    for keys in (["k0"], ["k3", "k1", "k2", "k0"]):
        assert client.batch(bucket, keys) == [objects[key] for key in keys]


def test_more_references_than_fit_into_one_request(client: Client, bucket: str) -> None:
    client.put_batch(bucket, {f"{i}": b"%d" % i for i in range(100)})
    keys = [str(i % 100) for i in range(40_000)]
    assert client.batch(bucket, keys) == [key.encode() for key in keys]


def test_errors_in_their_places(client: Client, bucket: str) -> None:
    client.put_batch(bucket, {"a": b"A", "b": b"B"})
    refs = ["a", "none", "b", Ref("a", offset=5), Ref("a", bucket="no-such-bucket"), Ref("b", member="m")]
    items = client.batch(bucket, refs, on_error="return")
    assert [items[0], items[2]] == [b"A", b"B"]
    assert [getattr(item, "kind", "") for item in items] == ["", "NotFound", "", "Invalid", "NotFound", "Invalid"]
    assert f"{bucket}/none" in str(items[1]) and client.endpoint in str(items[1])
    with pytest.raises(penstock.NotFound, match=f"{bucket}/none"):
        client.batch(bucket, refs)
    assert client.batch(bucket, ["a"]) == [b"A"]


def test_a_node_is_asked_for_bytes_that_are_known(client: Client, bucket: str) -> None:
    client.put_batch(bucket, {"a": b"first", "b": b"second"})
    right, wrong = fakenode.crc32(b"first"), fakenode.crc32(b"second")
    refs = [Ref("a", crc32=right), Ref("a", crc32=wrong), Ref("b", offset=0, length=9, crc32=wrong), Ref("b", crc32=wrong)]
    items = client.batch(bucket, refs, on_error="return")
    assert [getattr(item, "kind", "") for item in items] == ["", "Stale", "Stale", ""]


def test_bytes_that_are_known() -> None:
    """Whatever a node makes of a checksum that is asked for, the client compares."""
    items = [b"first", b"second", b"third", b"fourth"]
    good = [Ref("a", crc32=fakenode.crc32(b"first")), "b", Ref("c", length=5, crc32=fakenode.crc32(b"third")), Ref("d")]
    with (
        FakeNode(lambda connection, _: connection.sendall(chunked(fakenode.batch(items), 50))) as node,
        Client(node.endpoint) as client,
    ):
        assert client.batch("bucket", good) == items
        bad = [Ref("a", crc32=1), "b", Ref("c", length=6, crc32=fakenode.crc32(b"third")), "d"]
        got = client.batch("bucket", bad, on_error="return")
        assert [getattr(item, "kind", "") for item in got] == ["Stale", "", "Stale", ""] and "bucket/c" in str(got[2])


def test_wrong_use(client: Client, bucket: str) -> None:
    for refs in ("key", [""], [b"a"], [("a", 1)], ["k" * 1025]):
        with pytest.raises(penstock.Invalid):
            client.batch(bucket, refs)
    with pytest.raises(penstock.Invalid):
        client.batch(bucket, ["a"], on_error="ignore")
    with pytest.raises(penstock.Invalid):
        client.batch("NO", ["a"])


def test_items_are_yours(client: Client, bucket: str) -> None:
    """They can be written to, and nobody else sees it, however long they are kept."""
    objects = {f"k{i}": random.randbytes(100_000) for i in range(8)}
    client.put_batch(bucket, objects)
    keys = list(objects)
    kept = client.batch(bucket, keys)[3]
    for _ in range(20):
        items = client.batch(bucket, keys)
        assert items == list(objects.values())
        for item in items:
            item[:] = bytes(len(item))
    assert kept == objects["k3"]


def test_memory_is_used_again_only_when_nobody_looks() -> None:
    memory = Memory(limit=1 << 20)
    first = memory.take(100_000)
    second = memory.take(100_000)
    assert first.obj is not second.obj
    piece, part = second.obj, second[10:20]
    del second
    gc.collect()
    assert memory.take(100_000).obj is not piece  # part still looks at it
    del part
    assert memory.take(99_000).obj is piece and len(memory.take(99_000)) == 99_000
    del first, piece
    for _ in range(100):
        memory.take(random.randrange(40_000, 4_000_000))
        assert memory._remembered() <= 1 << 20
    memory.forget()
    assert memory._remembered() == 0


def test_numpy_keeps_an_item_alive(client: Client, bucket: str) -> None:
    numpy = pytest.importorskip("numpy")
    objects = {f"k{i}": random.randbytes(200_000) for i in range(4)}
    client.put_batch(bucket, objects)
    arrays = [numpy.frombuffer(item, dtype=numpy.uint8) for item in client.batch(bucket, list(objects))]
    for _ in range(10):
        for item in client.batch(bucket, list(objects)):
            item[:] = bytes(len(item))
    assert [array.tobytes() for array in arrays] == list(objects.values())


def test_put_batch(client: Client, bucket: str) -> None:
    client.put_batch(bucket, [Upload("a", b"1", "text/plain"), ("b", b"2"), Upload("c", bytes(300_000))])
    assert client.stat(f"{bucket}/a").content_type == "text/plain"
    assert client.batch(bucket, ["a", "b", "c"]) == [b"1", b"2", bytes(300_000)]
    client.put_batch(bucket, {})
    client.put_batch(bucket, {f"many/{i}": b"%d" % i for i in range(10_000)})
    assert sum(1 for _ in client.list(bucket, prefix="many/")) == 10_000


def test_put_batch_names_what_failed(client: Client, bucket: str) -> None:
    with pytest.raises(penstock.PutBatchError) as caught:
        client.put_batch(bucket, [("a", b"1"), ("b", b"2"), ("b", b"3")])
    assert list(caught.value.failed) == ["b"] and caught.value.kind == "Invalid"
    assert client.batch(bucket, ["a", "b"]) == [b"1", b"2"]
    for bad in ([("", b"")], [Upload("k", b"", "a\nb")], [Upload("k", b"", "x" * 1025)]):
        with pytest.raises(penstock.Invalid):
            client.put_batch(bucket, bad)
    with pytest.raises(penstock.NotFound):
        client.put_batch("no-such-bucket", {"a": b""})


OBJECTS = {f"k{i:03}": bytes([i]) * (1 << 20) for i in range(100)}


@pytest.fixture
def doomed(tmp_path: Path) -> Node:
    node = Node(tmp_path).start()
    with Client(node.endpoint) as client:
        client.create_bucket("bucket")
        client.put_batch("bucket", OBJECTS)
    return node


def test_a_node_killed_in_the_middle(doomed: Node) -> None:
    with Client(doomed.endpoint, timeout=20) as client:
        items = client.iter_batch("bucket", OBJECTS, on_error="return")
        got = [next(items)]
        doomed.kill()
        begin = time.monotonic()
        got += items
        assert time.monotonic() - begin < 10
        whole = [item for item in got if isinstance(item, memoryview)]
        assert len(got) == 100 and 1 <= len(whole) < 100
        assert whole == list(OBJECTS.values())[: len(whole)]
        assert all(isinstance(item, penstock.Unavailable) for item in got[len(whole) :])
        with pytest.raises(penstock.Unavailable, match="start one with `penstock serve`"):
            client.batch("bucket", OBJECTS)


def test_a_node_that_comes_back_in_the_middle(doomed: Node) -> None:
    with Client(doomed.endpoint, timeout=20) as client:
        items = client.iter_batch("bucket", OBJECTS)
        got = [bytes(next(items))]
        doomed.kill()
        doomed.start()
        got += map(bytes, items)
        assert got == list(OBJECTS.values())
    doomed.stop()


class Cutting:
    """Answers batches, and hangs up after so many bytes, each time more."""

    def __init__(self, item: bytes, step: int, *, damage: int = -1) -> None:
        self.item, self.step, self.damage, self.asked = item, step, damage, []

    def __call__(self, connection: socket.socket, request: bytes) -> None:
        refs = parse_refs(request.partition(b"\r\n\r\n")[2])
        self.asked.append(len(refs))
        reply = bytearray(chunked(fakenode.batch([self.item + ref["key"].encode() for ref in refs], segment=2), 1000))
        if self.damage >= 0:
            reply[self.damage] ^= 1
        connection.sendall(reply[: self.step * len(self.asked)])
        if self.step * len(self.asked) < len(reply):
            connection.shutdown(socket.SHUT_RDWR)


def test_an_answer_that_breaks_off_is_asked_for_again_from_there() -> None:
    script = Cutting(b"x" * 500, 2500)
    with FakeNode(script) as node, Client(node.endpoint) as client:
        assert client.batch("bucket", [str(i) for i in range(20)]) == [b"x" * 500 + b"%d" % i for i in range(20)]
        assert script.asked == sorted(script.asked, reverse=True) and script.asked[0] == 20 > script.asked[-1]


def test_an_answer_that_always_breaks_off() -> None:
    script = Cutting(b"x" * 5000, 100)
    with FakeNode(script) as node, Client(node.endpoint, attempts=3) as client:
        with pytest.raises(penstock.Unavailable, match="0 of 20 items have come"):
            client.batch("bucket", [str(i) for i in range(20)])
        assert len(script.asked) == 3


def test_a_damaged_item_names_itself() -> None:
    script = Cutting(b"x" * 500, 1 << 20, damage=400)
    with FakeNode(script) as node, Client(node.endpoint) as client:
        items = client.batch("bucket", ["first", Ref("second", "member")], on_error="return")
        assert (
            isinstance(items[0], penstock.Corrupt)
            and "bucket/first" in str(items[0])
            and items[1] == b"x" * 500 + b"second"
        )
        with pytest.raises(penstock.Corrupt, match="bucket/first.*damaged on the way"):
            client.batch("bucket", ["first", "second"])
        assert len(script.asked) == 2  # corruption is not retried silently


@pytest.mark.parametrize("count", [0, 1, 3, 1 << 31])
def test_another_number_of_items(count: int) -> None:
    reply = bytearray(fakenode.batch([b"one", b"two"]))
    reply[8:12] = count.to_bytes(4, "little")
    with (
        FakeNode(lambda connection, _: connection.sendall(chunked(bytes(reply), 50))) as node,
        Client(node.endpoint) as client,
    ):
        with pytest.raises(penstock.Corrupt, match=f"the answer has {count} items, 2 were asked for"):
            client.batch("bucket", ["a", "b"])


@pytest.mark.parametrize("on_error", ["raise", "return"])
def test_an_answer_that_does_not_end_as_it_should(on_error: Literal["raise", "return"]) -> None:
    reply = bytearray(fakenode.batch([b"one", b"two"]))
    reply[-1] ^= 1
    with (
        FakeNode(lambda connection, _: connection.sendall(chunked(bytes(reply), 50))) as node,
        Client(node.endpoint) as client,
    ):
        with pytest.raises(penstock.PenstockError, match="the answer ends behind item 2 of 2"):
            client.batch("bucket", ["a", "b"], on_error=on_error)


def test_leaving_in_the_middle(client: Client, bucket: str) -> None:
    client.put_batch(bucket, {f"{i}": bytes(100_000) for i in range(50)})
    for stop in (0, 1, 30):
        items = client.iter_batch(bucket, map(str, range(50)))
        for _ in range(stop):
            next(items)
        items.close()
        assert client.batch(bucket, ["7"]) == [bytes(100_000)]
