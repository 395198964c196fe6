"""Puts samples together to tensors."""

from __future__ import annotations

from typing import Any

from penstock.collate import Raw, columns_of, gather
from penstock.errors import Invalid

__all__ = ["collate"]


def collate(samples: list[Any], raw: bool = False) -> Any:
    """A batch: of dicts a dict, of numbers, arrays, tensors and images a tensor, of bytes and texts a list.

    Images become uint8 with the colours first, as torchvision has them. With raw, bytes become
    one tensor with all of them and one with their offsets.
    """
    fields = columns_of(samples)
    if fields is None:
        return _values("a batch", samples, raw)
    return {name: _values(name, values, raw) for name, values in fields.items()}


def _values(name: str, values: list[Any], raw: bool) -> Any:
    import torch

    first = values[0]
    if isinstance(first, torch.Tensor):
        return _stack(name, values)
    if isinstance(first, (memoryview, bytes, bytearray)):
        if not raw:
            return [bytes(value) for value in values]
        data, offsets = gather(values)
        whole = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
        return Raw(whole, torch.tensor(offsets))
    if isinstance(first, (bool, int)):
        return torch.tensor(values)
    if isinstance(first, float):
        return torch.tensor(values, dtype=torch.float64)  # as torch's own collate does
    if isinstance(first, dict):
        nested = columns_of(values) or {}
        return {key: _values(f"{name}.{key}", some, raw) for key, some in nested.items()}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(_values(name, list(some), raw) for some in zip(*values)))
    if isinstance(first, (tuple, list)):
        if len({len(value) for value in values}) > 1:
            return values
        return type(first)(_values(name, list(some), raw) for some in zip(*values))
    if hasattr(first, "getbands") and hasattr(first, "tobytes"):  # an image of PIL
        return _stack(name, [_image(value) for value in values])
    if hasattr(first, "__array__"):
        return _stack(name, [torch.as_tensor(value) for value in values])
    return values


def _image(image: Any) -> Any:
    import torch

    bands = len(image.getbands())
    flat = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return flat.reshape(image.height, image.width, bands).permute(2, 0, 1)


def _stack(name: str, tensors: list[Any]) -> Any:
    import torch

    shapes = {tuple(tensor.shape) for tensor in tensors}
    if len(shapes) > 1:
        some = ", ".join("x".join(map(str, shape)) or "a number" for shape in sorted(shapes)[:4])
        raise Invalid(f"{name} has different shapes in one batch ({some}): make them alike in the transform")
    return torch.stack(tensors)
