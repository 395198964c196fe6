"""https endpoints, with a certificate made for the occasion."""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Node

import penstock
from penstock import Client


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("certificate")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        + ["-subj", "/CN=penstock test", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
        + ["-keyout", str(here / "key.pem"), "-out", str(here / "cert.pem")],
        check=True,
        capture_output=True,
    )
    return here / "cert.pem"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, certificate: Path) -> Iterator[Node]:
    key = certificate.with_name("key.pem")
    node = Node(tmp_path_factory.mktemp("tls"), "--tls-cert", str(certificate), "--tls-key", str(key)).start()
    yield node
    node.stop()


def test_everything_over_tls(secure: Node, certificate: Path) -> None:
    with Client(secure.endpoint, ca_file=certificate) as client:
        client.create_bucket("secure")
        data = {f"k{i}": bytes([i]) * 200_000 for i in range(20)}
        client.put_batch("secure", data)
        for _ in range(3):
            assert client.batch("secure", list(data)) == list(data.values())
        large = bytes(3 << 20)
        client.put("secure/large", large)
        assert client.get("secure/large") == large
        again = pickle.loads(pickle.dumps(client))
        assert again.get("secure/k3") == data["k3"]


def test_a_certificate_nobody_vouches_for(secure: Node) -> None:
    with Client(secure.endpoint) as client, pytest.raises(penstock.Unavailable, match="self-signed certificate"):
        client.buckets()
    with (
        Client(secure.endpoint, ca_file="/no/such/file") as client,
        pytest.raises(penstock.PenstockError, match="/no/such/file"),
    ):
        client.buckets()


def test_plain_http_to_a_tls_port_and_the_reverse(secure: Node, node: Node) -> None:
    with (
        Client(secure.endpoint.replace("https:", "http:")) as client,
        pytest.raises(penstock.Invalid, match="HTTPS server"),
    ):
        client.buckets()
    with (
        Client(node.endpoint.replace("http:", "https:")) as client,
        pytest.raises(penstock.Unavailable, match="no node at https"),
    ):
        client.buckets()
