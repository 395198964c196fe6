"""Train a small CNN on a dataset in a directory: no server needed.

python examples/train_cnn.py [DIR]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import shapes
import torch
from model import accuracy, augment, network, plain

import penstock
from penstock.torch import loader


def main() -> None:
    torch.set_num_threads(1)
    where = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()) / "shapes"
    ds = penstock.open(shapes.write(where, 1500))
    train, test = ds.split(0.9, seed=1)
    print(ds, "with", len(train), "samples to train and", len(test), "to test; classes:", ", ".join(ds.classes))

    net = network()
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    batches = loader(train, batch_size=32, seed=7, shuffle="window:256KiB", transform=augment, num_workers=2)
    held_out = loader(test, batch_size=50, shuffle=False, transform=plain, drop_last=False)
    for epoch in range(4):
        for x, y in batches:
            loss = torch.nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}, accuracy {accuracy(net, held_out):.3f}", flush=True)

    stalls = batches.stalls()
    worst = max(stalls["stages"], key=stalls["stages"].get)
    print(f"waited for data {stalls['share']:.0%} of the time, most of it for {worst}")
    batches.close()
    assert accuracy(net, held_out) > 0.8


if __name__ == "__main__":
    main()
