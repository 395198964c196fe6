"""Penstock for PyTorch.

    from penstock.torch import loader
    dl = loader(ds, batch_size=256, seed=7, shuffle="window:2GiB", transform=f, num_workers=8)
    for batch in dl: ...

docs/guide/training.md goes through it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.chance import Chance, seeded
from penstock.dataset import Dataset
from penstock.decode import Decode
from penstock.loader import Loader
from penstock.torch.collate import collate
from penstock.torch.map import BatchSampler, MapDataset
from penstock.torch.ranks import ranks

__all__ = ["BatchSampler", "Chance", "Loader", "MapDataset", "collate", "loader", "ranks", "seeded"]


def loader(
    dataset: Dataset,
    *,
    batch_size: int | None = None,
    global_batch: int | None = None,
    seed: int = 0,
    shuffle: Any = "window:2GiB",
    decode: Decode = "auto",
    transform: Callable[..., Any] | None = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    fields: Sequence[str] | None = None,
    num_workers: int = 0,
    workers: str = "process",
    prefetch: int = 2,
    multiprocessing_context: Any = None,
    drop_last: bool = True,
    pad: str = "drop",
    dp_rank: int | None = None,
    dp_size: int | None = None,
    mesh: Any = None,
    on_error: str = "raise",
) -> Loader:
    """A loader whose batches are tensors.

    batch_size is per data-parallel rank; global_batch may be given instead. transform is called with a sample, or
    with a sample and its generator if it takes two arguments. Rank and size come from the arguments, from mesh, from
    torch.distributed, or from the environment.
    """
    rank, size = ranks(dp_rank, dp_size, mesh)
    return Loader(
        dataset,
        batch_size=batch_size,
        global_batch=global_batch,
        seed=seed,
        shuffle=shuffle,
        decode=decode,
        transform=transform,
        collate_fn=collate_fn,
        fields=fields,
        num_workers=num_workers,
        workers=workers,
        prefetch=prefetch,
        multiprocessing_context=multiprocessing_context,
        drop_last=drop_last,
        pad=pad,
        dp_rank=rank,
        dp_size=size,
        on_error=on_error,
        _collate=collate,
    )
