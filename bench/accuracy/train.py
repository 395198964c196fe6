#!/usr/bin/env python3
"""One run: a small ResNet on Fashion-MNIST, with one way of shuffling and one seed.

    python train.py DIR --variant window-4m --seed 1 [--epochs 12] [--device cuda]

DIR is what prepare.py made. Prints a line of JSON for each epoch: loss, accuracy on the test set, and how
well the batches were mixed. With the same seed all variants begin with the same weights.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from feed import feed, whole
from mixing import Mixing
from network import augment, resnet, scale
from torch import nn
from torch.nn.functional import cross_entropy
from variants import VARIANTS

import penstock

BATCH, PEAK, DECAY = 128, 0.1, 5e-4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=1, help="processes that make batches: 0 or 1")
    train(parser.parse_args())


def train(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = True
    variant, device = VARIANTS[options.variant], torch.device(options.device)
    batches = feed(options.dir, variant, BATCH, options.seed, options.workers)
    steps = len(penstock.open(options.dir / variant.dataset)) // BATCH
    tests = tuple(part.to(device) for part in whole(options.dir / "test"))

    torch.manual_seed(options.seed)
    net = resnet().to(device)
    chance = torch.Generator(device).manual_seed(options.seed)
    optimizer = torch.optim.SGD(net.parameters(), PEAK, momentum=0.9, nesterov=True, weight_decay=DECAY)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK, total_steps=options.epochs * steps)
    for epoch in range(options.epochs):
        begun, taken, mixing = time.perf_counter(), 0, Mixing()
        total = torch.zeros((), device=device)
        net.train()
        for images, labels in batches(epoch):
            mixing.add(labels)
            x, y = images.to(device), labels.to(device)
            loss = cross_entropy(net(scale(augment(x, chance))), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            rate.step()
            total += loss.detach()
            taken += 1
        if taken != steps:
            raise SystemExit(f"{options.variant}: {taken} batches in an epoch, and not {steps}")
        line = {
            "variant": options.variant, "seed": options.seed, "epoch": epoch + 1, "loss": round(total.item() / steps, 5),
            "accuracy": accuracy(net, *tests), **mixing.report(), "seconds": round(time.perf_counter() - begun, 2),
        }  # fmt: skip
        print(json.dumps(line), flush=True)


@torch.no_grad()
def accuracy(net: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Per cent of the test set that are named right."""
    net.eval()
    right = sum((net(scale(x)).argmax(1) == y).sum() for x, y in zip(images.split(1000), labels.split(1000)))
    return round(100 * int(right) / len(labels), 2)


if __name__ == "__main__":
    main()
