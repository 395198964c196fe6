"""A rank that trains with Lightning's Trainer."""

from __future__ import annotations

import os
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy
from rank import ORDER, Net, Rank, augment

import penstock
from penstock.torch import Loader, loader


class Data(lightning.LightningDataModule):
    """Loaders are made in the hook: there the processes know one another, and so loader() knows its rank."""

    def __init__(self, rank: Rank) -> None:
        super().__init__()
        self.rank = rank

    def train_dataloader(self) -> Loader:
        dl = loader(
            penstock.open(self.rank.home), transform=augment, num_workers=self.rank.options["workers"], **ORDER
        )
        assert (dl.dp_rank, dl.dp_size) == (self.rank.rank, self.rank.size)
        return dl

    def val_dataloader(self) -> Loader:
        return loader(penstock.open(self.rank.home), transform=augment, shuffle="none", batch_size=50)


class Module(lightning.LightningModule):
    def __init__(self, rank: Rank) -> None:
        super().__init__()
        self.net = Net()
        self.rank = rank

    def training_step(self, batch: dict[str, Any], batch_idx: int) -> torch.Tensor:
        step = self.trainer.fit_loop.total_batch_idx
        assert step == self.global_step and batch_idx == step % 12 and self.current_epoch == step // 12
        self.rank.got(step, batch)
        return self.net(**batch)["loss"]

    def validation_step(self, batch: dict[str, Any], batch_idx: int) -> None:
        self.log("loss", self.net(**batch)["loss"], sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.01)


class Steps(Callback):
    def __init__(self, rank: Rank) -> None:
        self.rank = rank

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        self.rank.done(trainer.global_step)


def main() -> None:
    assert "RANK" not in os.environ
    rank = Rank()
    every = {"every_n_epochs": 1, "save_on_train_epoch_end": True}
    if rank.every:
        every = {"every_n_train_steps": rank.every}
    checkpoints = ModelCheckpoint(rank.out, filename="at-{step}", auto_insert_metric_name=False, save_top_k=-1, **every)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=rank.size,
        strategy=DDPStrategy(process_group_backend="gloo") if rank.size > 1 else "auto",
        max_epochs=rank.steps // 12,
        callbacks=[checkpoints, Steps(rank)],
        default_root_dir=rank.out,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        limit_val_batches=2 if rank.options["validate"] else 0,
    )
    trainer.fit(Module(rank), datamodule=Data(rank), ckpt_path=rank.newest("at-*.ckpt"))


if __name__ == "__main__":
    main()
