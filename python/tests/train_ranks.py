"""One rank of a training run for test_torch.py: writes what it got, and state after each step."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed

import penstock
from penstock.torch import loader


def augment(sample, rng):  # type: ignore[no-untyped-def]
    data = torch.frombuffer(bytearray(bytes(sample["bin"][:16]).ljust(16, b"\0")), dtype=torch.uint8)
    noise = torch.rand(16, generator=rng.torch)
    return {"index": sample["__index__"], "x": data.float() + noise + rng.random(), "y": sample["cls"]}


def main() -> None:
    home, out, steps, workers, kind, pause, tensor = sys.argv[1:8]
    torch.distributed.init_process_group("gloo")
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    part, parts = rank // int(tensor), size // int(tensor)  # neighbours hold parts of the same tensors
    dl = loader(
        penstock.open(home),
        global_batch=24,
        seed=11,
        shuffle="window:60KiB",
        transform=augment,
        num_workers=int(workers),
        workers=kind,
        **({"dp_rank": part, "dp_size": parts} if parts < size else {}),
    )
    assert (dl.dp_rank, dl.dp_size) == (part, parts)
    state = Path(out) / "state.json"
    done = 0
    if state.exists():
        saved = json.loads(state.read_text())
        dl.load_state_dict(saved["loader"])
        done = saved["done"]
    while done < int(steps):
        for batch in dl:
            target = Path(out) / f"{done:04}-{part}-of-{parts}-{os.getpid()}"
            torch.save(batch, f"{target}.part")
            os.rename(f"{target}.part", f"{target}.pt")
            done += 1
            total = batch["x"].sum()
            torch.distributed.all_reduce(total)  # hangs, if ranks get different numbers of batches
            if rank == 0:
                (Path(out) / "state.new").write_text(json.dumps({"loader": dl.state_dict(), "done": done}))
                os.rename(Path(out) / "state.new", state)
            print(done, flush=True)
            time.sleep(float(pause))
            if done == int(steps):
                break
    torch.distributed.barrier()
    if rank == 0:
        print("end", json.dumps(dl.state_dict()), flush=True)


if __name__ == "__main__":
    main()
