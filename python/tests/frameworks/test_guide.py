"""What the guide says of other frameworks: run as it is there, on one rank, and gone on with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from conftest import ROOT
from rank import Net, augment
from runs import dataset

import penstock

pytestmark = pytest.mark.filterwarnings("ignore")  # what others warn of


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def training_step(self, batch: dict[str, Any], batch_idx: int) -> torch.Tensor:
        loss: torch.Tensor = self.net(**batch)["loss"]
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.01)


def example(name: str) -> str:
    """The program of a section."""
    text = (ROOT / "docs" / "guide" / "training.md").read_text()
    section = re.split("^##", text.split(f"\n### {name}\n")[1], flags=re.MULTILINE)[0]
    return "\n".join(line[4:] for line in section.splitlines() if line.startswith("    ") or not line)


@pytest.mark.parametrize("name", ["torchdata", "Lightning", "Accelerate", "transformers"])
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    net = Net()
    names: dict[str, Any] = {
        "train": penstock.open(dataset(tmp_path / "pets")), "augment": augment, "net": net, "model": Model(),
        "optimizer": torch.optim.SGD(net.parameters(), 0.01),
    }  # fmt: skip
    exec(example(name), names)
    if name == "torchdata":
        expected = penstock.torch.loader(names["train"], global_batch=96, seed=7, transform=augment).batch_at(0, 1)
        assert torch.equal(next(iter(names["dl"]))["x"], expected["x"])
    elif name == "Lightning":
        assert names["trainer"].global_step == 6 and (tmp_path / "checkpoints" / "last.ckpt").exists()
    elif name == "Accelerate":
        names["accelerator"].load_state("state")
        assert (names["dl"].epoch, names["dl"].step) == (1, 0)
    else:
        assert names["trainer"].state.global_step == 6
        names["trainer"].train(resume_from_checkpoint=True)
