"""Kill a run in the middle of an epoch, and go on: the losses are those of a run that was never killed.

python examples/resume.py
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import shapes
import torch
from model import augment, network

import penstock
from penstock.torch import loader

STEPS = 40


def run(directory: Path, kill_at: int | None) -> None:
    """Train, saving a checkpoint after each step, from the last checkpoint on."""
    torch.set_num_threads(1)
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    batches = loader(
        penstock.open(directory.parent / "shapes"), batch_size=32, seed=7, transform=augment, num_workers=2
    )
    checkpoint = directory / "checkpoint"
    losses: list[float] = []
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        batches.load_state_dict(saved["data"])
        losses = saved["losses"]
        print(f"goes on at epoch {batches.epoch}, step {batches.step}", flush=True)
    while len(losses) < STEPS:
        for x, y in batches:
            loss = torch.nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            state = {
                "net": net.state_dict(),
                "optimizer": optimizer.state_dict(),
                "data": batches.state_dict(),
                "losses": losses,
            }
            torch.save(state, f"{checkpoint}.new")
            os.replace(f"{checkpoint}.new", checkpoint)
            if len(losses) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if len(losses) == STEPS:
                break
    batches.close()


def main() -> None:
    if len(sys.argv) > 1:
        run(Path(sys.argv[1]), int(sys.argv[2]) or None)
        return
    with tempfile.TemporaryDirectory() as top:
        shapes.write(Path(top) / "shapes", 600)
        for name, kills in (("straight", [0]), ("broken", [13, 27, 0])):
            directory = Path(top) / name
            directory.mkdir()
            for kill_at in kills:
                done = subprocess.run([sys.executable, "-W", "ignore", __file__, str(directory), str(kill_at)])
                assert done.returncode == (-signal.SIGKILL if kill_at else 0)
                if kill_at:
                    print(f"killed after step {kill_at}", flush=True)
        one, two = (torch.load(Path(top) / name / "checkpoint")["losses"] for name in ("straight", "broken"))
        assert one == two, "the runs differ"
        print(f"all {len(one)} losses are the same, to the last bit; the last is {one[-1]:.4f}")


if __name__ == "__main__":
    main()
