"""How a dataset is found: in a directory, or by its name on a node.

    penstock.open("/data/imagenet")             the newest version in a directory
    penstock.open("file:///data/imagenet@3")    another one
    penstock.open("imagenet"), ("imagenet@3")   on a node

A name without a version is the newest one, looked up once: what was opened never changes.
"""

from __future__ import annotations

import functools
import os
import re
from urllib.parse import unquote, urlsplit

from penstock.agreement import agree, check
from penstock.client import Client
from penstock.errors import Invalid, NotFound
from penstock.manifest import Manifest
from penstock.place import Directory
from penstock.table import Table

__all__ = ["open", "versions"]

_MANIFEST = re.compile(r"manifest-([0-9]{6,20})")
_NAMED = re.compile(r"([A-Za-z0-9_][A-Za-z0-9._-]{0,127})(?:@([0-9]{1,19}))?", re.ASCII)
_VERSION = re.compile(r"@([0-9]{1,19})$", re.ASCII)


def open(dataset: str | os.PathLike[str], *, client: Client | None = None) -> Table:
    """Open a dataset: a directory that holds one, or a name on a node, with @VERSION or the newest.

    client is the node's; without one it is that of the environment. A directory needs none.
    """
    if not isinstance(dataset, str):
        return _in_directory(os.fspath(dataset), None)
    if "://" in dataset:
        parts = urlsplit(dataset)
        if parts.scheme != "file" or parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
            raise Invalid(f"{dataset!r} is not a dataset: write file:///DIR, a path, or NAME@VERSION")
        dataset = unquote(parts.path)
        return _in_directory(*_versioned(dataset))
    if os.path.isabs(dataset) or dataset.startswith((".", "~")) or os.sep in dataset or "/" in dataset:
        return _in_directory(*_versioned(os.path.expanduser(dataset)))
    found = _NAMED.fullmatch(dataset)
    if found is None:
        raise Invalid(f"{dataset!r} is not the name of a dataset: write NAME, NAME@VERSION, or the path of a directory")
    from penstock.catalog import open_named

    return open_named(client or usual(), found[1], int(found[2]) if found[2] else None)


def usual() -> Client:
    """The node of the environment. All datasets share one client, so that many of them have not as many connections."""
    settings = tuple(sorted(item for item in os.environ.items() if item[0].startswith("PENSTOCK_")))
    return _usual(settings)


@functools.lru_cache(maxsize=4)
def _usual(_: object) -> Client:
    return Client()


def _versioned(path: str) -> tuple[str, int | None]:
    """A path and the version behind it, unless the whole is the name of a directory."""
    found = _VERSION.search(path)
    if found is None or os.path.isdir(path):
        return path, None
    return path[: found.start()], int(found[1])


def _in_directory(path: str, version: int | None) -> Table:
    path = os.path.abspath(path)
    there = versions(path)
    if version is None:
        table = _version(path, there[-1])
        shared = functools.partial(str, path)
        agreed, _ = agree(shared, table.version, table.hash)
        if agreed != table.version:
            table.close()
            table = _in_directory(path, agreed)
        table.floating = shared
        check(table)
        return table
    if version not in there:
        raise NotFound(f"{path} has no version {version}: it has {', '.join(map(str, there[-10:]))}")
    return _version(path, version)


def _version(path: str, version: int) -> Table:
    opener = functools.partial(Manifest.open, os.path.join(path, f"manifest-{version:06}"))
    manifest = opener()
    table = Table(opener, Directory(path), name=manifest.name, version=version, hash=manifest.hash)
    table._manifest = manifest
    return table


def versions(path: str) -> list[int]:
    """The versions that were published in a directory, rising, or NotFound if there are none."""
    try:
        names = os.listdir(path)
    except FileNotFoundError:
        raise NotFound(f"there is no directory {path}") from None
    except NotADirectoryError:
        raise NotFound(f"{path} is not a directory") from None
    found = [_MANIFEST.fullmatch(name) for name in names]
    numbers = sorted(int(match[1]) for match in found if match and f"manifest-{int(match[1]):06}" == match[0])
    if not numbers or numbers == [0]:
        raise NotFound(f"{path} holds no dataset: there is no manifest in it")
    return [number for number in numbers if number]
