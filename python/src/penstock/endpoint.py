"""Where a node is: the endpoint's URL, taken apart."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from penstock.errors import Invalid

__all__ = ["DEFAULT_ENDPOINT", "Endpoint"]

# Where `penstock serve` listens when it is told nothing else.
DEFAULT_ENDPOINT = "http://127.0.0.1:7400"


@dataclass(frozen=True)
class Endpoint:
    """A node's address. Its text form, for messages, is the URL without a slash at its end."""

    tls: bool
    host: str
    port: int
    path: str  # before every path of the API; no slash at its end
    url: str

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """Take apart http://host:port or https://host:port; the scheme may be left out."""
        url = text if "://" in text else "http://" + text
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise Invalid(f"endpoint {text!r} is not a URL") from None
        if parts.scheme not in ("http", "https"):
            raise Invalid(f"endpoint {text!r} must begin with http:// or https://")
        if not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment or not _printable(url):
            raise Invalid(f"endpoint {text!r} must be a scheme, a host and a port")
        tls = parts.scheme == "https"
        path = parts.path.rstrip("/")
        return cls(tls, parts.hostname, port or (443 if tls else 80), path, f"{parts.scheme}://{parts.netloc}{path}")

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return self.url


def _printable(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text
