"""The examples of the guide and the README: run, and compared with what they show."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from conftest import ROOT, Node

import penstock


@pytest.mark.parametrize(
    "text", [ROOT / "docs" / "guide" / "python.md", ROOT / "python" / "README.md"], ids=lambda path: path.name
)
def test_examples(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    node = Node(tmp_path).start()  # of its own: the examples show all buckets there are
    monkeypatch.setenv("PENSTOCK_ENDPOINT", node.endpoint)
    monkeypatch.chdir(tmp_path)
    globs: dict[str, object] = {}
    try:
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        failed, tried = doctest.testfile(str(text), module_relative=False, globs=globs, optionflags=flags)
        assert failed == 0 and tried > 3
    finally:
        for value in globs.values():
            if isinstance(value, penstock.Client):
                value.close()
        node.stop()
