"""Carries batches from a worker process to the one that consumes them.

Large pieces (arrays, tensors) go into memory that both processes have mapped: a memfd, which has no
name, so whoever dies, nothing is left. The bytes are written once, by the worker. Fresh memory costs
several times as much as writing to it, so it is used again: when the last view of a batch is gone
the consumer says so with the next task, and the worker writes another batch there. Where there is no
memfd the bytes go through the pipe.

A batch belongs to the process that received it: a child that is forked later shares the memory, and
must copy what it wants to keep.
"""

from __future__ import annotations

import functools
import io
import mmap
import os
import pickle
import sys
import weakref
from collections import deque
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

try:
    import ctypes
except ImportError:  # a Python that was built without it: bytes go through the pipe
    ctypes = None  # type: ignore[assignment]

__all__ = ["Inbox", "Outbox"]

_LARGE = 32 << 10  # below it a copy costs less than what goes with a memfd
_ALIGN = 64
_SPARE = 4  # pieces of memory of a worker that wait to be used again; beyond that the oldest is forgotten
_FORMATS = frozenset("bB?hHiIlLqQnNfd")  # of views that can be made from bytes


class _Pickler(pickle.Pickler):
    """Takes the bytes of tensors and views out of the message, as arrays of numpy do by themselves."""

    def __init__(self, file: io.BytesIO, buffers: list[memoryview]) -> None:
        super().__init__(file, 5, buffer_callback=self._take)
        self._buffers = buffers
        self._kept: list[Any] = []

    def _take(self, buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes < _LARGE:
            return True
        self._buffers.append(view)
        return False

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, memoryview):
            data = pickle.PickleBuffer(obj) if obj.c_contiguous else obj.tobytes()
            if obj.format not in _FORMATS or obj.nbytes == 0:
                return memoryview, (data,)
            return _view, (data, obj.format, obj.shape)
        torch = sys.modules.get("torch")
        if torch is None or type(obj) is not torch.Tensor or ctypes is None or getattr(obj, "is_nested", False):
            return NotImplemented
        plain = obj.device.type == "cpu" and obj.layout == torch.strided and not obj.is_quantized
        if not plain or obj.requires_grad or obj.numel() == 0:
            return NotImplemented
        if obj.dim() == 4 and not obj.is_contiguous() and obj.is_contiguous(memory_format=torch.channels_last):
            return _colours_first, (obj.permute(0, 2, 3, 1),)
        whole = obj.contiguous()
        if hasattr(whole, "resolve_neg"):  # memory holds what a lazy conj() or negation has yet to be applied to
            whole = whole.resolve_conj().resolve_neg()
        self._kept.append(whole)
        size = whole.numel() * whole.element_size()
        data = (ctypes.c_ubyte * size).from_address(whole.data_ptr())
        return _tensor, (pickle.PickleBuffer(data), str(whole.dtype).removeprefix("torch."), tuple(whole.shape))


def _view(data: Any, format: str, shape: tuple[int, ...]) -> Any:
    view: Any = memoryview(data).cast("B")
    return view if format == "B" and len(shape) == 1 else view.cast(format, shape)


def _tensor(data: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    import torch

    return torch.frombuffer(data, dtype=getattr(torch, dtype)).reshape(shape)


def _colours_first(images: Any) -> Any:
    return images.permute(0, 3, 1, 2)


class _Shared:
    """A memfd that this process has mapped, until nobody refers to this."""

    def __init__(self, number: int, fd: int, size: int) -> None:
        self.number, self.size = number, size
        self._address = _map(fd, size)
        weakref.finalize(self, _libc().munmap, self._address, size).atexit = False

    def array(self) -> Any:
        """Its bytes. Whoever looks at them must keep this."""
        return (ctypes.c_ubyte * self.size).from_address(self._address)


class Outbox:
    """The worker's end: sends values, and knows the memory that they lie in."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[int, _Shared] = {}
        self._free: list[int] = []
        self._forgotten: list[int] = []  # what the consumer is yet to be told about
        self._made = 0

    def free(self, number: int) -> None:
        """Nobody looks at that memory any more: it may be used again."""
        self._free.append(number)
        if len(self._free) > _SPARE:  # sizes may have changed: those of late are the ones to keep
            oldest = self._free.pop(0)
            del self._known[oldest]
            self._forgotten.append(oldest)

    def send(self, value: Any) -> None:
        """Send a value. What it holds may be used again when this returns."""
        file, buffers = io.BytesIO(), []  # type: tuple[io.BytesIO, list[memoryview]]
        pickler = _Pickler(file, buffers)
        pickler.dump(value)
        sizes = [buffer.nbytes for buffer in buffers]
        total = sum(size + -size % _ALIGN for size in sizes)
        shared, fd = self._room(total) if buffers else (None, -1)
        try:
            if shared is None:
                self._announce(file, sizes, None)
                for buffer in buffers:
                    self._connection.send_bytes(buffer)
                return
            view, at = memoryview(shared.array()).cast("B"), 0
            for buffer, size in zip(buffers, sizes):
                view[at : at + size] = buffer
                at += size + -size % _ALIGN
            self._announce(file, sizes, (shared.number, shared.size, fd >= 0))
            if fd >= 0:
                reduction.send_handle(self._connection, fd, None)
        finally:
            if fd >= 0:
                os.close(fd)

    def _announce(self, file: io.BytesIO, sizes: list[int], where: tuple[int, int, bool] | None) -> None:
        forgotten, self._forgotten = self._forgotten, []
        self._connection.send_bytes(pickle.dumps((file.getvalue(), sizes, where, forgotten), 5))

    def _room(self, size: int) -> tuple[_Shared | None, int]:
        """Memory of at least this size, and its descriptor if the consumer has yet to map it; none if there can be none."""
        for at in range(len(self._free) - 1, -1, -1):
            known = self._known[self._free[at]]
            if size <= known.size <= 4 * size:
                del self._free[at]
                return known, -1
        if ctypes is None or not hasattr(os, "memfd_create"):
            return None, -1
        size += size // 8  # the next ones may be a little larger
        try:
            fd = os.memfd_create("penstock-batch", os.MFD_CLOEXEC)
        except OSError:
            return None, -1
        try:
            os.posix_fallocate(fd, 0, size)  # or else it is a signal that says that there is no memory
            shared = _Shared(self._made, fd, size)
        except (OSError, MemoryError):
            os.close(fd)
            return None, -1
        self._made += 1
        self._known[shared.number] = shared
        return shared, fd


class Inbox:
    """The consumer's end of one worker's connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[int, _Shared] = {}
        self._idle: deque[int] = deque()  # what nobody looks at any more, and the worker does not know yet

    def receive(self) -> Any:
        """Receive a value. EOFError means that nobody will send any more."""
        data, sizes, where, forgotten = pickle.loads(self._connection.recv_bytes())
        for number in forgotten:
            del self._known[number]
        if where is None:
            return pickle.loads(data, buffers=[bytearray(self._connection.recv_bytes()) for _ in sizes])
        number, size, fresh = where
        if fresh:
            fd = reduction.recv_handle(self._connection)
            try:
                self._known[number] = _Shared(number, fd, size)
            finally:
                os.close(fd)
        shared = self._known[number]
        whole = shared.array()
        # It also keeps what is mapped, should the loader go before its batches.
        weakref.finalize(whole, _let_go, shared, self._idle).atexit = False
        memory, buffers, at = memoryview(whole).cast("B"), [], 0
        for size in sizes:
            buffers.append(memory[at : at + size])
            at += size + -size % _ALIGN
        return pickle.loads(data, buffers=buffers)

    def released(self) -> list[int]:
        """The memory that may be used again, since this was asked last."""
        return [self._idle.popleft() for _ in range(len(self._idle))]


def _let_go(shared: _Shared, idle: deque[int]) -> None:
    idle.append(shared.number)


@functools.cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return libc


def _map(fd: int, size: int) -> int:
    """Map a memfd. Not by the module mmap, which keeps a descriptor for each mapping: who keeps a
    thousand batches would have no file left to open."""
    # All pages at once: taking them one by one, as they are touched, costs several times as much.
    flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
    address = _libc().mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"{size} bytes of a batch cannot be mapped: {os.strerror(ctypes.get_errno())}")
    return int(address)
