"""Puts samples together to tensors."""

from __future__ import annotations

from typing import Any

from penstock.collate import Raw, Take, columns_of, fresh, gather
from penstock.errors import Invalid
from penstock.memory import Memory

__all__ = ["collate"]


def collate(samples: list[Any], raw: bool = False, *, memory: Memory | None = None) -> Any:
    """A batch: of dicts a dict, of numbers, arrays, tensors and images a tensor, of bytes and texts a list.

    Images become uint8 with the colours first, as torchvision has them, and lie in memory as decoders
    leave them, with the colours last (torch.channels_last): to turn them over takes a sixth of the time
    it takes to decode them. With raw, bytes become
    one tensor with all of them and one with their offsets, which lie in memory if that is given.
    """
    take = None if not raw else fresh if memory is None else memory.take
    fields = columns_of(samples)
    if fields is None:
        return _values("a batch", samples, take)
    return {name: _values(name, values, take) for name, values in fields.items()}


def _values(name: str, values: list[Any], take: Take | None) -> Any:
    import torch

    first = values[0]
    if isinstance(first, torch.Tensor):
        return _stack(name, values)
    if isinstance(first, (memoryview, bytes, bytearray)):
        if take is None:
            return [bytes(value) for value in values]
        return Raw(*_row(values, take))
    if isinstance(first, (bool, int)):
        return torch.tensor(values)
    if isinstance(first, float):
        return torch.tensor(values, dtype=torch.float64)  # as torch's own collate does
    if isinstance(first, dict):
        nested = columns_of(values) or {}
        return {key: _values(f"{name}.{key}", some, take) for key, some in nested.items()}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(_values(name, list(some), take) for some in zip(*values)))
    if isinstance(first, (tuple, list)):
        if len({len(value) for value in values}) > 1:
            return values
        return type(first)(_values(name, list(some), take) for some in zip(*values))
    if hasattr(first, "getbands") and hasattr(first, "tobytes"):  # an image of PIL
        return _stack(name, [_image(value) for value in values])
    if hasattr(first, "__array__"):
        return _stack(name, [torch.as_tensor(value) for value in values])
    return values


def _row(values: list[Any], take: Take) -> tuple[Any, Any]:
    """Bytes one behind the other, and their offsets."""
    import torch

    size = sum(map(len, values))
    whole = _shared(size)
    if whole is None:
        data, offsets = gather(values, take)
        whole = torch.frombuffer(data, dtype=torch.uint8) if size else torch.empty(0, dtype=torch.uint8)
    else:
        import ctypes

        room = memoryview((ctypes.c_ubyte * size).from_address(whole.data_ptr())).cast("B")
        _, offsets = gather(values, lambda _: room)
    return whole, torch.tensor(offsets)


def _shared(size: int) -> Any:
    """In a worker of torch's DataLoader, a row of bytes where the consumer finds it without another copy."""
    import torch

    if size == 0 or torch.utils.data.get_worker_info() is None or not hasattr(torch, "UntypedStorage"):
        return None
    storage = torch.UntypedStorage._new_shared(size)  # as torch's own collate does
    return torch.empty(0, dtype=torch.uint8).set_(storage, 0, (size,), (1,))


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
    if all(map(_colours_last, tensors)):
        return torch.stack([tensor.permute(1, 2, 0) for tensor in tensors]).permute(0, 3, 1, 2)
    return torch.stack(tensors)


def _colours_last(tensor: Any) -> bool:
    """Whether it is an image in the order in which a decoder writes it."""
    return tensor.dim() == 3 and not tensor.is_contiguous() and tensor.permute(1, 2, 0).is_contiguous()
