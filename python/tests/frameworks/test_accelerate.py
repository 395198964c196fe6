"""Accelerate with our loader: killed, and gone on with load_state at other sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import Run, dataset, killed_and_resumed


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dataset(tmp_path_factory.mktemp("pets"))


@pytest.mark.parametrize("workers", [0, 2])
def test_checkpoints_in_epochs(home: Path, tmp_path: Path, workers: int) -> None:
    killed_and_resumed("accelerate_rank.py", home, tmp_path, workers=workers)


def test_checkpoints_between_epochs(home: Path, tmp_path: Path) -> None:
    plan = [(1, 0, 14), (2, 12, 25), (1, 24, 0)]
    killed_and_resumed("accelerate_rank.py", home, tmp_path, plan=plan, every=0, workers=0)


def test_nothing_is_divided_twice(home: Path, tmp_path: Path) -> None:
    options = {"home": str(home), "out": str(tmp_path), "steps": 1, "every": 1, "run": 0, "stop": 0, "refuse": True}
    with Run("accelerate_rank.py", 2, **options) as ranks:
        assert "refused: this sampler divides the data among ranks already" in ranks.finish()
