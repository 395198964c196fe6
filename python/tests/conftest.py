"""Fixtures: the real binary, started on a free port with its data in a temporary directory."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).resolve().parents[2]


class Node:
    """A running `penstock serve`. It can be killed and started again on the same port and data."""

    def __init__(self, directory: Path, *flags: str, **environment: str) -> None:
        self.directory = directory
        self.flags = flags
        self.environment = environment
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.scheme = "https" if "--tls-cert" in flags else "http"
        self.endpoint = f"{self.scheme}://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Node:
        binary = os.environ.get("PENSTOCK_BINARY") or ROOT / "bin" / "penstock"
        command = [
            binary,
            "serve",
            "--data",
            self.directory / "data",
            "--listen",
            f"127.0.0.1:{self.port}",
            *self.flags,
        ]
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, env={"HOME": str(self.directory), **self.environment}
            )
        assert self.process.stdout is not None
        for line in self.process.stdout:  # no polling: the node says when it is ready
            if b"ready at" in line:
                return self
        self._reap()
        raise AssertionError(f"the node does not start: {(self.directory / 'log').read_text()}")

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self._reap()

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            assert self._reap() == 0, (self.directory / "log").read_text()

    def _reap(self) -> int:
        assert self.process is not None and self.process.stdout is not None
        self.process.stdout.close()
        status = self.process.wait(timeout=30)
        self.process = None
        return status


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("PENSTOCK_") and name != "PENSTOCK_BINARY":
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def clean_fsspec() -> Iterator[None]:
    """fsspec keeps file systems by their options, which do not name the node if the environment does."""
    yield
    if "penstock.fsspec" in sys.modules:
        sys.modules["penstock.fsspec"].PenstockFileSystem.clear_instance_cache()


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """The node most tests share. One that harms its node starts its own."""
    node = Node(tmp_path_factory.mktemp("node")).start()
    yield node
    node.stop()


@pytest.fixture
def client(node: Node) -> Iterator[penstock.Client]:
    with penstock.Client(node.endpoint, timeout=20) as client:
        yield client


_numbers = itertools.count()


@pytest.fixture
def bucket(client: penstock.Client) -> str:
    """A new bucket."""
    return client.create_bucket(f"bucket-{next(_numbers)}").name
