"""Ranks that open a dataset while versions of it are published, for test_torch.py. A rank says what it has found."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch.distributed as distributed

import penstock
from penstock.torch import loader


def main() -> None:
    where, out, when = sys.argv[1:4]
    rank = int(os.environ["RANK"])
    turn = Path(out) / f"go-{rank}"

    def wait() -> None:
        while not turn.exists():
            time.sleep(0.01)

    if when == "before":
        wait()
        ds = penstock.open(where)
        (Path(out) / f"opened-{rank}").touch()
        distributed.init_process_group("gloo")
    else:
        distributed.init_process_group("gloo")
        wait()
        ds = penstock.open(where)
        (Path(out) / f"opened-{rank}").touch()
    child = os.fork()  # a worker that opens it again by itself: it must not touch what its rank shares with others
    if child == 0:
        penstock.open(where)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    try:
        dl = loader(ds.split(0.9)[0], batch_size=5, seed=1, fields=["n"])
        print(rank, ds.version, dl.batch_at(0, 0)["n"].sum().item(), flush=True)
    except penstock.Stale as error:
        print(rank, "Stale", error, flush=True)
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
