"""The Trainer of Hugging Face's transformers: killed, and gone on with resume_from_checkpoint at other sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import dataset, killed_and_resumed


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dataset(tmp_path_factory.mktemp("pets"))


@pytest.mark.parametrize("workers", [0, 2])
def test_checkpoints_in_epochs(home: Path, tmp_path: Path, workers: int) -> None:
    killed_and_resumed("hf_rank.py", home, tmp_path, workers=workers, accumulate=1)


def test_checkpoints_between_epochs(home: Path, tmp_path: Path) -> None:
    plan = [(1, 0, 14), (2, 12, 25), (1, 24, 0)]
    killed_and_resumed("hf_rank.py", home, tmp_path, plan=plan, every=0, workers=0, accumulate=1)


def test_accumulated_gradients(home: Path, tmp_path: Path) -> None:
    # The updates of an epoch are of 5, 5 and 2 batches; a checkpoint is made after every second one.
    plan = [(2, 0, 12), (1, 10, 22), (2, 17, 0)]
    killed_and_resumed("hf_rank.py", home, tmp_path, plan=plan, every=2, workers=0, accumulate=5)
