"""A rank that trains with Accelerate."""

from __future__ import annotations

import os
import shutil

import torch
from accelerate import Accelerator
from accelerate.utils import send_to_device
from rank import ORDER, Net, Rank, augment
from torch.utils.data import DataLoader

import penstock
from penstock.torch import BatchSampler, MapDataset, collate, loader


def train(rank: Rank, accelerator: Accelerator) -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    dl = loader(penstock.open(rank.home), transform=augment, num_workers=rank.options["workers"], **ORDER)
    net, optimizer, prepared = accelerator.prepare(net, optimizer, dl)
    assert prepared is dl and (dl.dp_rank, dl.dp_size) == (rank.rank, rank.size)
    accelerator.register_for_checkpointing(dl)
    if (newest := rank.newest("at-*")) is not None:
        accelerator.load_state(str(newest))
    done = dl.epoch * len(dl) + dl.step
    while done < rank.steps:
        for batch in dl:
            rank.got(done, batch)
            batch = send_to_device(batch, accelerator.device)
            with accelerator.accumulate(net):
                accelerator.backward(net(**batch)["loss"])
                optimizer.step()
                optimizer.zero_grad()
            done += 1
            if rank.every and done % rank.every == 0:
                save(rank, accelerator, done)
            rank.done(done)
        if not rank.every:
            save(rank, accelerator, done)
    accelerator.end_training()


def save(rank: Rank, accelerator: Accelerator, done: int) -> None:
    accelerator.save_state(str(rank.out / "new"))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        shutil.rmtree(rank.out / f"at-{done}", ignore_errors=True)
        os.rename(rank.out / "new", rank.out / f"at-{done}")
    accelerator.wait_for_everyone()


def refuse(rank: Rank, accelerator: Accelerator) -> None:
    """A DataLoader whose sampler divides the data already must not be divided again."""
    ds = penstock.open(rank.home)
    dl = DataLoader(MapDataset(ds, transform=augment), batch_sampler=BatchSampler(ds, **ORDER), collate_fn=collate)
    try:
        accelerator.prepare(dl)
    except penstock.Invalid as error:
        print("refused:", error)
    accelerator.end_training()


if __name__ == "__main__":
    this = Rank()
    (refuse if this.options.get("refuse") else train)(this, Accelerator(cpu=True))
