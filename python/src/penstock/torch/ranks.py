"""Which share of the data this process gets."""

from __future__ import annotations

import sys
from typing import Any

from penstock.errors import Invalid
from penstock.loader import _ranks

__all__ = ["ranks"]

# What the dimensions of a mesh are called along which data is divided; along others all get the same.
_DATA = frozenset(
    ("dp", "data", "ddp", "fsdp", "batch", "replicate", "shard", "dp_replicate", "dp_shard", "data_parallel")
)


def ranks(dp_rank: int | None = None, dp_size: int | None = None, mesh: Any = None) -> tuple[int, int]:
    """The data-parallel rank and size: as given, of a mesh, of torch.distributed, or of the environment."""
    if mesh is not None:
        if dp_rank is not None or dp_size is not None:
            raise Invalid("pass mesh, or dp_rank and dp_size, not both")
        return _of_mesh(mesh)
    if dp_rank is None and dp_size is None:
        distributed = getattr(sys.modules.get("torch"), "distributed", None)
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
    return _ranks(dp_rank, dp_size)


def _of_mesh(mesh: Any) -> tuple[int, int]:
    names = mesh.mesh_dim_names
    if names is None:
        if mesh.ndim != 1:
            raise Invalid("the mesh has several dimensions without names: pass dp_rank and dp_size")
        return mesh.get_local_rank(0), mesh.size(0)
    chosen = [i for i, name in enumerate(names) if name in _DATA]
    if not chosen:
        raise Invalid(f"none of the mesh's dimensions {tuple(names)} is known to divide data: pass dp_rank and dp_size")
    rank, size = 0, 1
    for i in chosen:
        rank, size = rank * mesh.size(i) + mesh.get_local_rank(i), size * mesh.size(i)
    return rank, size
