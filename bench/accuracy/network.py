"""A small residual network for images of 28 x 28, and the random crops and flips it is trained with."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import pad, relu


class Block(nn.Module):
    """Two convolutions and a way past them."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.first = conv(inside, outside, 3, stride)
        self.second = conv(outside, outside, 3, 1)
        self.past = nn.Identity() if stride == 1 and inside == outside else conv(inside, outside, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return relu(self.second(relu(self.first(x))) + self.past(x))


def conv(inside: int, outside: int, size: int, stride: int) -> nn.Sequential:
    """A convolution with batch normalization."""
    layer = nn.Conv2d(inside, outside, size, stride, size // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outside))


def resnet(classes: int = 10, width: int = 32) -> nn.Module:
    """ResNet-8: 310,000 parameters."""
    return nn.Sequential(
        conv(1, width, 3, 1),
        nn.ReLU(),
        Block(width, width, 1),
        Block(width, 2 * width, 2),
        Block(2 * width, 4 * width, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, classes),
    )


def scale(images: torch.Tensor) -> torch.Tensor:
    """Bytes to numbers around zero, with one channel."""
    return (images.float() / 255 - 0.286)[:, None] / 0.353


def augment(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A random crop after two pixels were added on all sides, and a flip of every second image."""
    n, device = len(images), images.device

    def draw(below: int) -> torch.Tensor:
        return torch.randint(below, (n, 1), generator=generator, device=device)

    across = torch.arange(28, device=device)
    rows = across + draw(5)
    columns = torch.where(draw(2) == 1, 27 - across, across) + draw(5)
    padded = pad(images, (2, 2, 2, 2))
    return padded[torch.arange(n, device=device)[:, None, None], rows[:, :, None], columns[:, None, :]]
