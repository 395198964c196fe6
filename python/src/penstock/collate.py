"""Puts samples together to a batch, without torch: arrays of numpy where it is installed, else lists."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

from penstock.errors import Invalid
from penstock.memory import Memory
from penstock.order import _numpy

__all__ = ["Raw", "Take", "batch_memory", "collate", "columns_of", "fresh", "gather"]


class Raw(NamedTuple):
    """A field of a whole batch, one sample behind the other: sample i is data[offsets[i]:offsets[i + 1]]."""

    data: Any
    offsets: Any


def columns_of(samples: list[Any]) -> dict[str, list[Any]] | None:
    """The values of each field, if samples are dicts with the same ones. None if they are something else."""
    first = samples[0]
    if not isinstance(first, dict):
        return None
    for sample in samples:
        if sample.keys() != first.keys():
            odd = sorted(sample.keys() ^ first.keys())
            raise Invalid(
                f"samples {first.get('__key__')} and {sample.get('__key__')} do not have the same fields: only one has "
                f"{', '.join(odd)}; choose fields=, or pass a collate_fn or a transform that levels them"
            )
    return {name: [sample[name] for sample in samples] for name in first}


Take = Callable[[int], memoryview]  # gives memory


def gather(values: list[Any], take: Take) -> tuple[memoryview, list[int]]:
    """Bytes one behind the other, and where each begins, and the last ends."""
    offsets = list(accumulate(map(len, values), initial=0))
    data = take(offsets[-1])
    for value, begin, end in zip(values, offsets, offsets[1:]):
        data[begin:end] = value
    return data, offsets


def batch_memory() -> Memory:
    """Memory for the batches of one loader, used again when the consumer has let go of them."""
    return Memory(256 << 20, 64 << 20)


def fresh(size: int) -> memoryview:
    """Memory that is used once."""
    return memoryview(bytearray(size))


def collate(samples: list[Any], raw: bool = False, *, memory: Memory | None = None) -> Any:
    """A batch: of dicts a dict, of numbers and arrays an array, of bytes and texts a list. With raw, bytes become one
    piece of memory."""
    np: Any = _numpy()
    take = None if not raw else fresh if memory is None else memory.take
    fields = columns_of(samples)
    if fields is None:
        return _values(np, samples, take)
    return {name: _values(np, values, take) for name, values in fields.items()}


def _values(np: Any, values: list[Any], take: Take | None) -> Any:
    first = values[0]
    if isinstance(first, (memoryview, bytes, bytearray)):
        if take is None:
            return [bytes(value) for value in values]
        data, offsets = gather(values, take)
        return Raw(data, offsets) if np is None else Raw(np.frombuffer(data, np.uint8), np.array(offsets, np.int64))
    if isinstance(first, (tuple, list)):
        return type(first)(_values(np, list(some), take) for some in zip(*values))
    if np is None or isinstance(first, (str, dict)) or first is None:
        return values
    if isinstance(first, (bool, int, float)):
        return np.array(values)
    if hasattr(first, "__array__") or hasattr(first, "__array_interface__"):
        arrays = [np.asarray(value) for value in values]
        shapes = {array.shape for array in arrays}
        if len(shapes) > 1:
            raise Invalid(f"a batch has shapes {sorted(shapes)[:4]}: make them alike in the transform")
        return np.stack(arrays)
    return values
