"""A rank that trains with the Trainer of Hugging Face's transformers."""

from __future__ import annotations

from typing import Any

import torch
from rank import ORDER, Net, Rank, augment
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments

import penstock
from penstock.torch import BatchSampler, MapDataset, collate


class PenstockTrainer(Trainer):
    """The Trainer counts steps itself, tells the sampler the epoch, and skips what was used without reading it."""

    def __init__(self, rank: Rank, **options: Any) -> None:
        super().__init__(**options)
        self.rank = rank
        self.micro = -1

    def get_train_dataloader(self) -> DataLoader:
        ds = penstock.open(self.rank.home)
        return DataLoader(
            MapDataset(ds, transform=augment),
            batch_sampler=BatchSampler(ds, **ORDER),
            collate_fn=collate,
            num_workers=self.args.dataloader_num_workers,
        )

    def compute_loss(self, model: Any, inputs: dict[str, Any], *arguments: Any, **options: Any) -> Any:
        if self.micro < 0:
            epoch, updates = divmod(self.state.global_step, -(-12 // self.args.gradient_accumulation_steps))
            self.micro = epoch * 12 + updates * self.args.gradient_accumulation_steps
        self.rank.got(self.micro, inputs)
        self.micro += 1
        return super().compute_loss(model, inputs, *arguments, **options)


class Steps(TrainerCallback):
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        done = trainer.micro
        assert abs(state.epoch - done / 12) < 1e-9
        rank.done(done)


if __name__ == "__main__":
    rank = Rank()
    arguments = TrainingArguments(
        output_dir=str(rank.out),
        use_cpu=True,
        ddp_backend="gloo" if rank.size > 1 else None,
        num_train_epochs=rank.steps // 12,
        per_device_train_batch_size=ORDER["global_batch"] // rank.size,
        gradient_accumulation_steps=rank.options["accumulate"],
        dataloader_num_workers=rank.options["workers"],
        save_strategy="steps" if rank.every else "epoch",
        save_steps=rank.every or 500,
        remove_unused_columns=False,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = PenstockTrainer(rank, model=Net(), args=arguments, callbacks=[Steps()])
    newest = rank.newest("checkpoint-*")
    trainer.train(resume_from_checkpoint=None if newest is None else str(newest))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
