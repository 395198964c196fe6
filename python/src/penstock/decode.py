"""From bytes to what they stand for, by the name of the field.

The last extension decides: `seg.png` is an image. What nobody knows stays bytes-like.
"""

from __future__ import annotations

import functools
import importlib.util
import io
import json
from collections.abc import Callable, Mapping
from typing import Any, Union

from penstock.errors import Invalid

__all__ = ["Decode", "Decoder", "decoder"]

# "auto"; None or "raw" for bytes; or functions by field, "auto" for the fields it does not name.
Decode = Union[str, None, Mapping[str, Callable[[Any], Any]]]

_NUMBERS = frozenset(("cls", "cls2", "class", "index", "inx", "id"))
_TEXTS = frozenset(("txt", "text", "transcript"))
_JSON = frozenset(("json", "jsn"))
_ARRAYS = frozenset(("npy",))
_IMAGES = frozenset(("jpg", "jpeg", "png", "webp", "ppm", "pgm", "pbm", "bmp", "gif", "tif", "tiff"))


class Decoder:
    """Decodes the fields of samples. It pickles, if the functions it was given do."""

    def __init__(self, how: Decode) -> None:
        if not (how in ("auto", "raw", None) or isinstance(how, Mapping)):
            raise Invalid(f'decode is "auto", "raw", None or functions by field, not {how!r}')
        self.auto = how == "auto" or isinstance(how, Mapping)
        self.raw = how == "raw"
        self.given = dict(how) if isinstance(how, Mapping) else {}
        self._known: dict[str, Callable[[Any], Any] | None] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}

    def __call__(self, field: str, data: Any) -> Any:
        """The value of a field. Whatever a function raises means that the bytes are not what the field says."""
        if not isinstance(data, memoryview):  # a column's value, which needs no decoding
            return self.given[field](data) if field in self.given else data
        if field not in self._known:
            self._known[field] = self.given.get(field) or (decoder(field) if self.auto else None)
        function = self._known[field]
        return data if function is None else function(data)


def decoder(field: str) -> Callable[[Any], Any] | None:
    """What "auto" does with a field; None if it stays as it is."""
    kind = field.rpartition(".")[2]
    if kind in _NUMBERS:
        return lambda data: int(bytes(data))
    if kind in _TEXTS:
        return lambda data: str(data, "utf-8")
    if kind in _JSON:
        return lambda data: json.loads(bytes(data))
    if kind in _ARRAYS and _there("numpy"):
        return _array
    if kind in _IMAGES and _there("PIL"):
        return _image
    return None


@functools.cache
def _there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _array(data: Any) -> Any:
    import numpy

    return numpy.load(io.BytesIO(data), allow_pickle=False)


def _image(data: Any) -> Any:
    """An image with three colours, as ImageFolder has it: a batch cannot hold grey ones beside them."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        return image.convert("RGB")
