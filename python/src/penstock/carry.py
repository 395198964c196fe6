"""Carries batches from a worker process to the one that consumes them.

Large pieces (arrays, tensors) go into memory that has no name: a memfd that is handed over
with the message. Whoever dies, nothing is left. The consumer maps it, so the bytes are
written once, by the worker. Where there is no memfd they go through the pipe.
"""

from __future__ import annotations

import ctypes
import io
import mmap
import os
import pickle
import sys
import weakref
from collections.abc import Sequence
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

__all__ = ["receive", "send"]

_LARGE = 32 << 10  # below it a copy costs less than a mapping
_ALIGN = 64
_AT_ONCE = 512  # pieces in one system call


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
            return (memoryview, (pickle.PickleBuffer(obj),)) if obj.contiguous else (memoryview, (bytes(obj),))
        torch = sys.modules.get("torch")
        if torch is None or type(obj) is not torch.Tensor:
            return NotImplemented
        plain = obj.device.type == "cpu" and obj.layout == torch.strided and not obj.is_quantized
        if not plain or obj.requires_grad or obj.numel() == 0:
            return NotImplemented
        whole = obj.contiguous()
        if hasattr(whole, "resolve_neg"):  # memory holds what a lazy conj() or negation has yet to be applied to
            whole = whole.resolve_conj().resolve_neg()
        self._kept.append(whole)
        size = whole.numel() * whole.element_size()
        data = (ctypes.c_ubyte * size).from_address(whole.data_ptr())
        return _tensor, (pickle.PickleBuffer(data), str(whole.dtype).removeprefix("torch."), tuple(whole.shape))


def _tensor(data: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    import torch

    return torch.frombuffer(data, dtype=getattr(torch, dtype)).reshape(shape)


def send(connection: Connection, value: Any) -> None:
    """Send a value. What it holds may be used again when this returns."""
    file, buffers = io.BytesIO(), []  # type: tuple[io.BytesIO, list[memoryview]]
    pickler = _Pickler(file, buffers)
    pickler.dump(value)
    sizes = [buffer.nbytes for buffer in buffers]
    fd = _memory(buffers) if buffers else -1
    if fd >= 0:
        try:
            connection.send_bytes(pickle.dumps((file.getbuffer().tobytes(), sizes, True), 5))
            reduction.send_handle(connection, fd, None)
        finally:
            os.close(fd)
        return
    connection.send_bytes(pickle.dumps((file.getvalue(), sizes, False), 5))
    for buffer in buffers:
        connection.send_bytes(buffer)


def _memory(buffers: Sequence[memoryview]) -> int:
    """A memfd that holds the buffers, or -1 if there can be none."""
    if not hasattr(os, "memfd_create"):
        return -1
    pieces: list[Any] = []
    for buffer in buffers:
        pieces.append(buffer)
        if rest := -buffer.nbytes % _ALIGN:
            pieces.append(bytes(rest))
    try:
        fd = os.memfd_create("penstock-batch", os.MFD_CLOEXEC)
    except OSError:
        return -1
    try:
        for at in range(0, len(pieces), _AT_ONCE):
            some = pieces[at : at + _AT_ONCE]
            done = os.writev(fd, some)
            for piece in some:  # a write of more than 2 GiB, or one that a signal ended, is short
                size = len(piece)
                while done < size:
                    done += os.write(fd, memoryview(piece)[done:])
                done -= size
    except OSError:  # no memory for it
        os.close(fd)
        return -1
    return fd


def receive(connection: Connection) -> Any:
    """Receive a value. EOFError means that nobody will send any more."""
    data, sizes, mapped = pickle.loads(connection.recv_bytes())
    if not mapped:
        return pickle.loads(data, buffers=[bytearray(connection.recv_bytes()) for _ in sizes])
    fd = reduction.recv_handle(connection)
    try:
        memory = _map(fd, sum(size + -size % _ALIGN for size in sizes))
    finally:
        os.close(fd)
    buffers, at = [], 0
    for size in sizes:
        buffers.append(memory[at : at + size])
        at += size + -size % _ALIGN
    return pickle.loads(data, buffers=buffers)


def _map(fd: int, size: int) -> memoryview:
    """Map a memfd. Not by the module mmap, which keeps a descriptor for each mapping: who keeps a
    thousand batches would have no file left to open."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    # All pages at once: taking them one by one, as they are touched, costs several times as much.
    flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
    address = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"{size} bytes of a batch cannot be mapped: {os.strerror(ctypes.get_errno())}")
    whole = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(whole, libc.munmap, address, size).atexit = False
    return memoryview(whole).cast("B")
