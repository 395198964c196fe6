"""A dataset of drawn shapes, for the examples: circles, squares and triangles, 32 x 32 pixels, with noise."""

from __future__ import annotations

import io
import random
from pathlib import Path

import penstock

CLASSES = ("circle", "square", "triangle")


def draw(kind: str, dice: random.Random) -> bytes:
    """A picture as PNG."""
    from PIL import Image, ImageDraw

    ground = tuple(dice.randrange(100) for _ in range(3))
    picture = Image.new("RGB", (32, 32), ground)
    pen = ImageDraw.Draw(picture)
    x, y, size = dice.randrange(1, 12), dice.randrange(1, 12), dice.randrange(12, 19)
    colour = tuple(dice.randrange(120, 256) for _ in range(3))
    if kind == "circle":
        pen.ellipse((x, y, x + size, y + size), fill=colour)
    elif kind == "square":
        pen.rectangle((x, y, x + size, y + size), fill=colour)
    else:
        pen.polygon([(x + size // 2, y), (x, y + size), (x + size, y + size)], fill=colour)
    out = io.BytesIO()
    picture.save(out, "png")
    return out.getvalue()


def write(directory: str | Path, count: int) -> str:
    """Make the dataset, unless it is there. It is sorted by class: the worst that a shuffle can meet."""
    directory = Path(directory)
    if not (directory / "manifest-000001").exists():
        with penstock.create("shapes", to=directory, chunk_size=32 << 10, classes={"cls": CLASSES}) as w:
            for number, kind in enumerate(CLASSES):
                for i in range(count // len(CLASSES)):
                    w.add(f"{kind}/{i:05}", {"png": draw(kind, random.Random(f"{number}.{i}")), "cls": kind})
    return str(directory)
