"""A rank of a mesh in which data and tensors are divided."""

from __future__ import annotations

import torch
from rank import ORDER, Rank, augment
from torch.distributed.device_mesh import init_device_mesh

import penstock
from penstock.torch import loader


def main() -> None:
    rank = Rank()
    data, tensor = rank.options["shape"]
    mesh = init_device_mesh("cpu", (data, tensor), mesh_dim_names=("dp", "tp"))
    dl = loader(
        penstock.open(rank.home), transform=augment, mesh=mesh, num_workers=rank.options["workers"], **ORDER
    )
    assert (dl.dp_rank, dl.dp_size) == (rank.rank // tensor, data)
    done = 0
    if (saved := rank.saved()) is not None:
        dl.load_state_dict(saved["data"])
        done = saved["done"]
    while done < rank.steps:
        for batch in dl:
            rank.got(done, batch, (dl.dp_rank, dl.dp_size))
            low, high = batch["x"].clone(), batch["x"].clone()
            torch.distributed.all_reduce(low, torch.distributed.ReduceOp.MIN, group=mesh.get_group("tp"))
            torch.distributed.all_reduce(high, torch.distributed.ReduceOp.MAX, group=mesh.get_group("tp"))
            assert torch.equal(low, high), "the ranks of a tensor group have different batches"
            done += 1
            torch.distributed.barrier()
            if done % rank.every == 0:
                rank.save({"data": dl.state_dict(), "done": done})
            rank.done(done)
    torch.distributed.barrier()


if __name__ == "__main__":
    main()
