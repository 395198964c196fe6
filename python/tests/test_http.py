"""HTTP as a node speaks it, and as nobody should: bodies of all forms, lies, cuts, silence."""

from __future__ import annotations

import random
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable

import fakenode
import pytest
from fakenode import FakeNode, answer, chunked, closing

import penstock
from penstock import Client
from penstock.connection import Connection

DATA = random.Random(1).randbytes(300_000)
DESCRIBED = ('ETag: "e"', "X-Penstock-Version: 1.1", "X-Penstock-Modified: 2026-11-15T03:32:09.114630171Z")


def described(data: bytes, *headers: str, status: str = "200 OK") -> bytes:
    return answer(data, *DESCRIBED, f"X-Penstock-Crc32: {fakenode.crc32(data):08x}", *headers, status=status)


def says(reply: bytes, *, hang_up: bool = False) -> FakeNode:
    """A node that says one thing to whatever is asked."""

    def script(connection: socket.socket, head: bytes) -> None:
        connection.sendall(reply)
        if hang_up:
            connection.shutdown(socket.SHUT_WR)

    return FakeNode(script)


@pytest.mark.parametrize(
    "form",
    [
        answer,
        closing,
        lambda body: chunked(body, 1),
        lambda body: chunked(body, 4097),
        lambda body: chunked(body, 1 << 20),
    ],
)
def test_all_forms_of_bodies(form: Callable[[bytes], bytes]) -> None:
    items = [DATA[:4096], b"", DATA[:5], DATA[: 1 << 15]]
    with says(form(fakenode.batch(items, segment=3)), hang_up=form is closing) as node, Client(node.endpoint) as client:
        assert client.batch("bucket", ["a", "b", "c", "d"]) == items
        assert client.batch("bucket", ["a", "b", "c", "d"]) == items
        assert node.connections == (2 if form is closing else 1)


def test_dribbling_bytes() -> None:
    """The head and the lines between chunks come in any pieces."""
    reply = chunked(fakenode.batch([b"one", b"two"]), 7)

    def script(connection: socket.socket, head: bytes) -> None:
        for at in range(len(reply)):
            connection.sendall(reply[at : at + 1])

    with FakeNode(script) as node, Client(node.endpoint) as client:
        assert client.batch("bucket", ["a", "b"]) == [b"one", b"two"]


def test_interim_answers_are_skipped() -> None:
    with (
        says(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + described(b"x")) as node,
        Client(node.endpoint) as client,
    ):
        assert client.get("bucket/k") == b"x"


GARBLED = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "another version": b"HTTP/2 200 OK\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "a status too long": b"HTTP/1.1 2000 OK\r\n\r\n",
    "no colon": b"HTTP/1.1 200 OK\r\nNonsense\r\n\r\n",
    "a space before the colon": b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n",
    "a folded header": b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "a length that is none": b"HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n",
    "a length beyond all": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    "a length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    "an unknown encoding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    "a chunk of no size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
    "a negative chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabcde\r\n",
    "a chunk size in another notation": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nabcde\r\n",
    "a chunk size beyond all": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\nabcde\r\n",
    "a chunk longer than it said": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcde\r\n0\r\n\r\n",
    "a line without end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 5000,
    "a header without end": b"HTTP/1.1 200 OK\r\n" + b"A: bbbbbbbbbbbbbbbb\r\n" * 20000,
}


@pytest.mark.parametrize("reply", GARBLED.values(), ids=GARBLED.keys())
def test_what_is_not_http(reply: bytes) -> None:
    with says(reply) as node, Client(node.endpoint) as client:
        with pytest.raises(penstock.Internal, match="is this a Penstock node") as caught:
            client.bucket("bucket")
        assert node.endpoint in str(caught.value) and caught.value.attempts == 1


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"{", b"[" * 100_000, b'{"name": 5}', b'{"entries": 5}', b"\xff"]
)
def test_what_is_not_the_right_json(body: bytes) -> None:
    with says(answer(body)) as node, Client(node.endpoint) as client:
        for act in (
            lambda: client.bucket("bucket"),
            client.buckets,
            lambda: list(client.list("bucket")),
            lambda: client.put("bucket/k", b""),
            lambda: client.put_batch("bucket", {"k": b""}),
        ):
            with pytest.raises(penstock.Internal, match="is this a Penstock node"):
                act()


def test_a_listing_that_does_not_get_on() -> None:
    page = b'{"entries": [], "prefixes": [], "truncated": true, "next": ""}'
    with (
        says(answer(page)) as node,
        Client(node.endpoint) as client,
        pytest.raises(penstock.Internal, match="does not get on"),
    ):
        list(client.list("bucket"))


def test_an_incomplete_listing_says_so_at_its_end() -> None:
    entry = b'{"key":"k","size":1,"etag":"e","modified":"2026-11-15T03:32:09Z","version":"1.1","crc32":"00000000"}'
    page = b'{"entries": [' + entry + b'], "prefixes": [], "truncated": false, "incomplete": true}'
    with says(answer(page)) as node, Client(node.endpoint) as client:
        assert len(list(client.list("bucket", allow_incomplete=True))) == 1
        entries = client.list("bucket")
        assert next(entries).key == "k"
        with pytest.raises(penstock.Unavailable, match="may lack entries"):
            next(entries)


def test_redirects_are_not_followed() -> None:
    with (
        says(answer(b"", "Location: http://elsewhere/", status="307 Temporary Redirect")) as node,
        Client(node.endpoint, "token") as client,
    ):
        with pytest.raises(penstock.Internal, match="307"):
            client.get("bucket/k")
        assert len(node.requests) == 1


def test_lies_about_objects() -> None:
    wrong = described(b"right").replace(b"\r\n\r\nright", b"\r\n\r\nwrong")
    with says(wrong) as node, Client(node.endpoint) as client:
        with pytest.raises(penstock.Corrupt, match="bucket/k.*CRC-32"):
            client.get("bucket/k")
        assert len(node.requests) == 1  # corruption is not retried silently
        with client.open("bucket/k") as reader, pytest.raises(penstock.Corrupt):
            reader.read(5)  # as many as there are: they are not given
    for reply in (
        answer(b"x"),
        described(b"x").replace(b"X-Penstock-Crc32: ", b"X-Penstock-Crc32: z"),
        described(b"x", "Content-Range: bytes 5-5/9", status="206 Partial Content"),
        described(b"x", "Content-Range: bytes 0-7/9", status="206 Partial Content"),
        described(b"x", "Content-Range: nonsense", status="206 Partial Content"),
        closing(b"x"),
    ):
        with says(reply, hang_up=True) as node, Client(node.endpoint) as client, pytest.raises(penstock.Internal):
            client.get("bucket/k")


def test_a_size_that_is_a_lie_costs_little_memory() -> None:
    reply = described(b"few").replace(b"Content-Length: 3", b"Content-Length: 999999999999")
    with says(reply, hang_up=True) as node, Client(node.endpoint, attempts=1) as client:
        tracemalloc.start()
        try:
            with pytest.raises(penstock.Unavailable, match="connection ended"):
                client.get("bucket/k")
            assert tracemalloc.get_traced_memory()[1] < 100 << 20
        finally:
            tracemalloc.stop()


class Flaky:
    """Fails so many times, then says the right thing."""

    def __init__(self, failures: int, failure: bytes, right: bytes) -> None:
        self.failures, self.failure, self.right = failures, failure, right

    def __call__(self, connection: socket.socket, head: bytes) -> None:
        self.failures -= 1
        if self.failures < 0:
            connection.sendall(self.right)
            return
        if self.failure:
            connection.sendall(self.failure)
        if not self.failure.endswith(b"\n"):
            connection.shutdown(socket.SHUT_RDWR)


BUSY = answer(
    b'{"error": {"kind": "Busy", "message": "too many"}}\n', "Retry-After: 0", status="503 Service Unavailable"
)
STORED = answer(
    b'{"key":"k","size":1,"etag":"e","modified":"2026-11-15T03:32:09Z","version":"1.1","crc32":"%08x"}'
    % fakenode.crc32(b"x")
)


@pytest.mark.parametrize("failure", [b"", BUSY, described(b"xyz")[:-2]], ids=["cut", "busy", "cut in the body"])
def test_what_may_be_repeated_is(failure: bytes) -> None:
    with FakeNode(Flaky(3, failure, described(b"xyz"))) as node, Client(node.endpoint) as client:
        assert client.get("bucket/k") == b"xyz"
        assert len(node.requests) == 4
    with FakeNode(Flaky(9, failure, described(b"xyz"))) as node, Client(node.endpoint, attempts=3) as client:
        with pytest.raises((penstock.Busy, penstock.Unavailable)) as caught:
            client.get("bucket/k")
        assert len(node.requests) == 3 == caught.value.attempts


def test_writes_are_repeated_only_without_conditions() -> None:
    with FakeNode(Flaky(2, b"", STORED)) as node, Client(node.endpoint) as client:
        client.put("bucket/k", b"x")
        assert len(node.requests) == 3
    for options in ({"if_match": "e"}, {"if_none_match": "*"}):
        with FakeNode(Flaky(2, b"", STORED)) as node, Client(node.endpoint) as client:
            with pytest.raises(penstock.Unavailable):
                client.put("bucket/k", b"x", **options)
            assert len(node.requests) == 1


def test_a_delete_that_is_repeated_finds_nothing_and_that_is_well() -> None:
    gone = answer(b'{"error": {"kind": "NotFound", "message": "bucket/k does not exist"}}\n', status="404 Not Found")
    with FakeNode(Flaky(1, b"", gone)) as node, Client(node.endpoint) as client:
        client.delete("bucket/k")
    with FakeNode(Flaky(0, b"", gone)) as node, Client(node.endpoint) as client, pytest.raises(penstock.NotFound):
        client.delete("bucket/k")


def test_retry_after_is_honoured_within_reason() -> None:
    later = BUSY.replace(b"Retry-After: 0", b"Retry-After: 1")
    with FakeNode(Flaky(1, later, described(b"xyz"))) as node, Client(node.endpoint) as client:
        begin = time.monotonic()
        assert client.get("bucket/k") == b"xyz"
        assert 1 <= time.monotonic() - begin < 5
    much_later = BUSY.replace(b"Retry-After: 0", b"Retry-After: 600")
    with FakeNode(Flaky(1, much_later, described(b"xyz"))) as node, Client(node.endpoint) as client:
        with pytest.raises(penstock.Busy) as caught:
            client.get("bucket/k")
        assert caught.value.retry_after == 600


def test_a_connection_the_node_closed_while_idle() -> None:
    def script(connection: socket.socket, head: bytes) -> None:
        connection.sendall(described(b"x"))
        connection.shutdown(socket.SHUT_RDWR)

    with FakeNode(script) as node, Client(node.endpoint, attempts=1) as client:
        for _ in range(5):
            assert client.get("bucket/k") == b"x"
            time.sleep(0.01)  # for the end to arrive; otherwise it would be a repeated request
        assert node.connections == 5


def silent(connection: socket.socket, head: bytes) -> None:
    connection.recv(1)  # until the other side leaves


def after(reply: bytes) -> Callable[[socket.socket, bytes], None]:
    def script(connection: socket.socket, head: bytes) -> None:
        connection.sendall(reply)
        silent(connection, head)

    return script


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (silent, "waited 1 s for the answer about bucket/k"),
        (after(b"HTTP/1.1 200 OK\r\nA: "), "waited 1 s for the answer about bucket/k"),
        (after(described(b"x" * 100)[:-5]), "waited 1 s for more of bucket/k"),
    ],
    ids=["silence", "silence in the head", "silence in the body"],
)
def test_every_wait_ends(script: Callable[[socket.socket, bytes], None], message: str) -> None:
    with FakeNode(script) as node, Client(node.endpoint, timeout=1) as client:
        begin = time.monotonic()
        with pytest.raises(penstock.Timeout, match=message) as caught:
            client.get("bucket/k")
        assert time.monotonic() - begin < 1.9  # once, not once more to clean up
        assert (
            isinstance(caught.value, TimeoutError)
            and caught.value.kind == "Unavailable"
            and node.endpoint in str(caught.value)
        )


def test_a_node_that_drips_is_not_waited_for_without_end() -> None:
    reply = described(b"x" * 1000)

    def script(connection: socket.socket, head: bytes) -> None:
        connection.sendall(reply[:-900])
        for _ in range(100):
            connection.sendall(b"x")
            time.sleep(0.05)

    with FakeNode(script) as node, Client(node.endpoint, timeout=0.5) as client:
        begin = time.monotonic()
        with pytest.raises(penstock.Timeout, match="too slowly"):
            client.get("bucket/k")
        assert time.monotonic() - begin < 3


def test_a_node_that_does_not_take_a_body() -> None:
    def script(connection: socket.socket, head: bytes) -> None:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        done.wait(20)

    done = threading.Event()
    with FakeNode(script) as node, Client(node.endpoint, timeout=0.5) as client:
        with pytest.raises(penstock.Timeout, match="for the node to take bucket/k"):
            client.put("bucket/k", bytes(64 << 20))
        done.set()


@pytest.mark.parametrize(
    "reply",
    [b"HTTP/1.1 200 OK\r\nA: " + b"x" * 200, b"HTTP/1.1 102 Wait\r\n\r\n" * 10],
    ids=["a head", "interim answers"],
)
@pytest.mark.parametrize("size", [1, 21])
def test_heads_that_do_not_end(reply: bytes, size: int) -> None:
    def script(connection: socket.socket, head: bytes) -> None:
        for at in range(0, len(reply), size):
            connection.sendall(reply[at : at + size])
            time.sleep(0.02 * size)

    with FakeNode(script) as node, Client(node.endpoint, timeout=0.5, attempts=1) as client:
        begin = time.monotonic()
        with pytest.raises(penstock.Timeout, match="waited 0.5 s for the answer about bucket/k"):
            client.get("bucket/k")
        assert time.monotonic() - begin < 2


def test_a_node_that_takes_a_body_too_slowly() -> None:
    here, there = socket.socketpair()
    here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    here.settimeout(0.3)

    def drain() -> None:
        for _ in range(100):
            there.recv(4096)
            time.sleep(0.02)
        there.close()

    thread = threading.Thread(target=drain)
    thread.start()
    begin = time.monotonic()
    with here, pytest.raises(TimeoutError, match="for the node to take it"):
        Connection(here, 0.3).send([bytes(1 << 20)], "it")
    assert time.monotonic() - begin < 1.5
    thread.join()


def test_a_large_body_waits_to_be_wanted() -> None:
    full = answer(b'{"error": {"kind": "Denied", "message": "quota"}}', status="403 Forbidden")
    with says(full) as node, Client(node.endpoint) as client:
        with pytest.raises(penstock.Denied, match="quota"):
            client.put("bucket/k", bytes(64 << 20))
        assert len(node.requests[0]) < 1000  # the body stayed here


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    client = Client(f"http://127.0.0.1:{port}")
    begin = time.monotonic()
    for act in (client.buckets, lambda: client.batch("bucket", ["k"]), lambda: client.put("bucket/k", b"")):
        with pytest.raises(penstock.Unavailable) as caught:
            act()
        assert str(caught.value) == f"no node at http://127.0.0.1:{port}: start one with `penstock serve`"
        assert isinstance(caught.value, ConnectionError)
    assert client.batch("bucket", ["k", "l"], on_error="return")[1].kind == "Unavailable"
    assert time.monotonic() - begin < 5  # at once, but for a busy machine
    with pytest.raises(penstock.Unavailable, match="no node at http://no-such-host.invalid:1"):
        Client("http://no-such-host.invalid:1").buckets()
