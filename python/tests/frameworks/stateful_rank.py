"""A rank that trains with torchdata's StatefulDataLoader."""

from __future__ import annotations

import torch
from rank import ORDER, Rank, augment
from torchdata.stateful_dataloader import StatefulDataLoader

import penstock
from penstock.torch import BatchSampler, MapDataset, collate


def main() -> None:
    rank = Rank()
    torch.distributed.init_process_group("gloo")
    ds = penstock.open(rank.home)
    sampler = BatchSampler(ds, **ORDER)
    samples = MapDataset(ds, transform=augment)
    batching = {"batch_sampler": sampler, "collate_fn": collate}
    if rank.options["batching"] == "sampler":
        batching = {"batch_size": None, "sampler": sampler}
    dl = StatefulDataLoader(
        samples, num_workers=rank.options["workers"], persistent_workers=rank.options["persistent"], **batching
    )
    done = epoch = 0
    if (saved := rank.saved()) is not None:
        dl.load_state_dict(saved["data"])
        done, epoch = saved["done"], saved["epoch"]
    for epoch in range(epoch, rank.steps // 12):
        for batch in dl:
            rank.got(done, batch)
            done += 1
            torch.distributed.all_reduce(batch["x"].sum())
            if rank.every and done % rank.every == 0:
                rank.save({"data": dl.state_dict(), "done": done, "epoch": epoch})
            rank.done(done)
        if not rank.every:
            rank.save({"data": dl.state_dict(), "done": done, "epoch": epoch + 1})
            print("epoch", epoch, flush=True)
    torch.distributed.barrier()


if __name__ == "__main__":
    main()
