"""Lightning's Trainer with our loader: killed, and gone on with fit(ckpt_path=...) at other sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import dataset, killed_and_resumed


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dataset(tmp_path_factory.mktemp("pets"))


@pytest.mark.parametrize(("workers", "validate"), [(0, False), (2, True)])
def test_checkpoints_in_epochs(home: Path, tmp_path: Path, workers: int, validate: bool) -> None:
    # The end of an epoch comes last. A run that goes on from there writes checkpoints in the middle of the next epoch
    # that say it is over: in Lightning 2.6 epoch_progress then has as many processed as ready.
    plan = [(2, 0, 6), (1, 4, 10), (2, 8, 13), (1, 12, 0)]
    killed_and_resumed(
        "lightning_rank.py", home, tmp_path, plan=plan, launched=False, workers=workers, validate=validate
    )


@pytest.mark.parametrize("validate", [False, True])
def test_checkpoints_between_epochs(home: Path, tmp_path: Path, validate: bool) -> None:
    # Lightning does not hand on the loader's state then; it says which epoch it is.
    plan = [(1, 0, 14), (2, 12, 25), (1, 24, 0)]
    killed_and_resumed(
        "lightning_rank.py", home, tmp_path, plan=plan, every=0, launched=False, workers=0, validate=validate
    )
