"""Data and tensor parallel ranks of a DeviceMesh: killed, and gone on in meshes of other shapes."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import dataset, killed_and_resumed


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dataset(tmp_path_factory.mktemp("pets"))


@pytest.mark.parametrize("workers", [0, 1])
def test_meshes(home: Path, tmp_path: Path, workers: int) -> None:
    plan = [((2, 2), 0, 6), ((4, 1), 4, 13), ((1, 2), 12, 22), ((2, 2), 20, 30), ((1, 1), 28, 0)]
    killed_and_resumed("mesh_rank.py", home, tmp_path, plan=plan, workers=workers)
