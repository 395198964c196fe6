"""Clients among threads and processes: pickled, forked in the middle of things, interrupted."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from fakenode import FakeNode

import penstock
from penstock import Client

OBJECTS = {f"k{i:02}": random.Random(i).randbytes(150_000) for i in range(40)}
METHODS = [method for method in ("fork", "spawn", "forkserver") if method in multiprocessing.get_all_start_methods()]


@pytest.fixture
def filled(client: Client, bucket: str) -> str:
    client.put_batch(bucket, OBJECTS)
    return bucket


def check(client: Client, bucket: str, rounds: int = 5) -> int:
    """What a worker does. It is sent to processes, so it stands here."""
    for _ in range(rounds):
        keys = random.choices(list(OBJECTS), k=20)
        assert client.batch(bucket, keys) == [OBJECTS[key] for key in keys]
        assert client.get(f"{bucket}/k07") == OBJECTS["k07"]
    return os.getpid()


def fail(client: Client, bucket: str) -> None:
    client.get(f"{bucket}/none")


def test_pickles_are_small_and_whole(client: Client, filled: str) -> None:
    client = Client(client.endpoint, "secret", timeout=7, attempts=2, ca_file="/ca.pem")
    data = pickle.dumps(client)
    assert len(data) < 300
    again = pickle.loads(data)
    assert pickle.dumps(again) == data and again.endpoint == client.endpoint
    assert "secret" not in repr(again) and b"secret" in data  # or else spawned workers could not use it


def test_threads(client: Client, filled: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: check(client, filled), range(16)))


@pytest.mark.parametrize("method", METHODS)
def test_workers(client: Client, filled: str, method: str) -> None:
    check(client, filled)  # a connection is open, and must not be shared
    context = multiprocessing.get_context(method)
    with context.Pool(3) as pool:
        workers = [pool.apply_async(check, (client, filled)) for _ in range(6)]
        check(client, filled)
        assert os.getpid() not in {worker.get(60) for worker in workers}
        with pytest.raises(penstock.NotFound) as caught:
            pool.apply(fail, (client, filled))
        assert "does not exist" in str(caught.value) and caught.value.attempts == 1
        pool.close()
        pool.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_fork_while_threads_use_the_client(client: Client, filled: str) -> None:
    """Whatever the threads were in the middle of, the child is not stuck in it."""
    stop = threading.Event()

    def use() -> None:
        while not stop.is_set():
            check(client, filled, 1)

    with ThreadPoolExecutor(4) as pool:
        using = [pool.submit(use) for _ in range(4)]
        try:
            for _ in range(10):
                child = os.fork()
                if child == 0:
                    code = 1
                    try:
                        signal.alarm(30)
                        check(client, filled, 2)
                        code = 0
                    finally:
                        os._exit(code)
                assert os.waitpid(child, 0)[1] == 0
        finally:
            stop.set()
        for thread in using:
            thread.result()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_fork_in_the_middle_of_a_batch(client: Client, filled: str) -> None:
    """Parent and child both go on with it, and neither takes the other's bytes."""
    items = client.iter_batch(filled, OBJECTS)
    got = [bytes(next(items)) for _ in range(3)]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(30)
            code = 0 if got + [bytes(item) for item in items] == list(OBJECTS.values()) else 2
        finally:
            os._exit(code)
    got += map(bytes, items)
    assert os.waitpid(child, 0)[1] == 0
    assert got == list(OBJECTS.values())


INTERRUPTED = """
import sys, penstock
client = penstock.Client(sys.argv[1], timeout=600)
print("ready", flush=True)
try:
    {act}
except KeyboardInterrupt:
    sys.exit(42)
"""

ACTS = {
    "reading": 'client.get("bucket/k")',
    "batch": 'client.batch("bucket", ["k"])',
    "writing": 'client.put("bucket/k", bytes(200 << 20))',
    "pausing": 'client.get("bucket/busy")',
}


@pytest.mark.skipif(sys.platform == "win32", reason="a signal cannot be sent to one process alone")
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS.keys())
def test_ctrl_c_works_at_once(act: str) -> None:
    asked = threading.Event()

    def script(connection: object, head: bytes) -> None:
        if b"/busy" in head:
            connection.sendall(b"HTTP/1.1 503 Busy\r\nRetry-After: 10\r\nContent-Length: 0\r\n\r\n")
        asked.set()
        done.wait(60)

    done = threading.Event()
    with FakeNode(script) as node:
        child = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED.format(act=act), node.endpoint], stdout=subprocess.PIPE
        )
        try:
            assert child.stdout is not None and child.stdout.readline() == b"ready\n"
            assert asked.wait(20)
            time.sleep(0.1)  # it waits for us by now
            begin = time.monotonic()
            child.send_signal(signal.SIGINT)
            assert child.wait(20) == 42
            assert time.monotonic() - begin < 5  # at once, but for a busy machine; it would wait longer
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
            done.set()


def test_import_is_light() -> None:
    """Nothing that only some systems or some users have is imported with the package, and nothing is opened."""
    code = "import sys; before = set(sys.modules); import penstock; penstock.Client(); print(*sorted(set(sys.modules) - before))"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert "penstock.client" in loaded
    assert not loaded & {
        "ssl",
        "fsspec",
        "numpy",
        "torch",
        "fcntl",
        "resource",
        "multiprocessing",
        "asyncio",
        "http.client",
        "_posixsubprocess",
        "threading",
    }
