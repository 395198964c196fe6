"""torchdata's StatefulDataLoader over our dataset and sampler: killed, and resumed at other sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import dataset, killed_and_resumed


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dataset(tmp_path_factory.mktemp("pets"))


@pytest.mark.parametrize(
    ("workers", "batching", "persistent"),
    [(0, "batch_sampler", False), (2, "batch_sampler", True), (2, "sampler", False)],
)
def test_checkpoints_in_epochs(home: Path, tmp_path: Path, workers: int, batching: str, persistent: bool) -> None:
    killed_and_resumed("stateful_rank.py", home, tmp_path, workers=workers, batching=batching, persistent=persistent)


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (2, True)])
def test_checkpoints_between_epochs(home: Path, tmp_path: Path, workers: int, persistent: bool) -> None:
    # The state is then one of a DataLoader that has come to its end.
    plan = [(1, 0, 14), (2, 12, 25), (1, 24, 0)]
    options = {"workers": workers, "batching": "batch_sampler", "persistent": persistent}
    killed_and_resumed("stateful_rank.py", home, tmp_path, plan=plan, every=0, **options)
