"""The network of the examples, and the transform before it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def network() -> nn.Module:
    """A small CNN."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 3),
    )  # fmt: skip


def pixels(image: Any) -> torch.Tensor:
    """An image of PIL as a tensor between -1 and 1, the colours first."""
    data = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return data.reshape(image.height, image.width, 3).permute(2, 0, 1) / 127.5 - 1


def augment(sample: dict[str, Any], rng: Any) -> tuple[torch.Tensor, int]:
    """For training. Chance comes from the sample's own generator: the same in every run, on every rank and worker."""
    x = pixels(sample["png"])
    if rng.random() < 0.5:
        x = x.flip(2)
    return x + 0.1 * torch.randn(x.shape, generator=rng.torch), sample["cls"]


def plain(sample: dict[str, Any]) -> tuple[torch.Tensor, int]:
    """For evaluation."""
    return pixels(sample["png"]), sample["cls"]


@torch.no_grad()
def accuracy(net: nn.Module, batches: Any) -> float:
    """The share of samples that are recognised."""
    net.eval()
    right = total = 0
    for x, y in batches:
        right += int((net(x).argmax(1) == y).sum())
        total += len(y)
    net.train()
    return right / total
