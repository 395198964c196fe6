"""Train on two processes with DistributedDataParallel.

python examples/ddp.py
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import shapes
import torch
import torch.distributed as dist
from model import augment, network
from torch.nn.parallel import DistributedDataParallel

import penstock
from penstock.torch import loader

RANKS = 2


def rank(directory: str) -> None:
    """What each process does. Rank and size come from torch.distributed."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    net = DistributedDataParallel(network())
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    batches = loader(penstock.open(directory), global_batch=60, seed=7, transform=seen, pad="repeat")
    for epoch in range(2):
        numbers = []
        for x, y, number in batches:
            loss = torch.nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            numbers += number.tolist()
        everybody: list[list[int]] = [[] for _ in range(RANKS)]
        dist.all_gather_object(everybody, numbers)
        if dist.get_rank() == 0:
            both = [number for one in everybody for number in one]
            assert len(set(both)) == 590, "a sample was not used"
            print(f"epoch {epoch}: {len(batches)} batches on each of {RANKS} ranks, all 590 samples used, "
                  f"{len(both) - 590} of them twice to fill the last batch; loss {loss.item():.3f}", flush=True)  # fmt: skip


def seen(sample, rng):  # type: ignore[no-untyped-def]
    return *augment(sample, rng), sample["__index__"]


def main() -> None:
    if len(sys.argv) > 1:
        rank(sys.argv[1])
        return
    with tempfile.TemporaryDirectory() as top, socket.socket() as free:
        directory = shapes.write(Path(top) / "all", 600)
        ds = penstock.open(directory)
        with penstock.create("shapes", to=Path(top) / "shapes") as w:  # a number that two ranks cannot share evenly
            for sample in ds.select(range(5, 595)):
                w.add(sample["__key__"], {"png": sample["png"], "cls": ds.classes[sample["cls"]]})
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
        free.close()
        common = {**os.environ, "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        command = [sys.executable, "-W", "ignore", __file__, str(Path(top) / "shapes")]
        ranks = [subprocess.Popen(command, env={**common, "RANK": str(i)}) for i in range(RANKS)]
        assert [process.wait() for process in ranks] == [0] * RANKS


if __name__ == "__main__":
    main()
