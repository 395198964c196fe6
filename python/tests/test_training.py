"""The guide to training and the examples: run, and compared with what they show."""

from __future__ import annotations

import doctest
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from conftest import ROOT

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("PIL", reason="PIL is not installed")


def test_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    text = str(ROOT / "docs" / "guide" / "training.md")
    failed, tried = doctest.testfile(text, module_relative=False, optionflags=flags)
    assert failed == 0 and tried > 30


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("train_cnn", "accuracy"),
        ("resume", "all 40 losses are the same, to the last bit"),
        ("ddp", "10 batches on each of 2 ranks"),
        ("explore", "classes: circle 500, square 500, triangle 500"),
    ],
)
def test_examples(name: str, said: str, tmp_path: Path) -> None:
    script = ROOT / "python" / "examples" / f"{name}.py"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0 and said in done.stdout, done.stderr
