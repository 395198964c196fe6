"""For who keeps torch's own DataLoader: a dataset that reads whole batches, and a sampler with our order."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from penstock import agreement
from penstock.chance import chance, takes_chance
from penstock.collate import batch_memory
from penstock.dataset import Dataset
from penstock.decode import Decode, Decoder
from penstock.errors import Invalid, SampleError
from penstock.loader import Loader
from penstock.torch.collate import collate
from penstock.torch.ranks import ranks

__all__ = ["BatchSampler", "MapDataset"]


class _Batch(list[int]):
    """Numbers of samples that know which epoch they are for: torch hands the list on to its workers."""

    epoch = 0
    seed = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return _batch, (list(self), self.epoch, self.seed)


def _batch(numbers: Sequence[int], epoch: int, seed: int) -> _Batch:
    batch = _Batch(numbers)
    batch.epoch, batch.seed = epoch, seed
    return batch


class MapDataset:
    """A dataset for torch.utils.data.DataLoader.

    The loader of torch 2 asks for whole batches (`__getitems__`): one request each. With an older one pass
    batch_size=None and a BatchSampler as sampler: then an index is a list, and gives a batch that is put together.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        decode: Decode = "auto",
        transform: Callable[..., Any] | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        fields: Sequence[str] | None = None,
        seed: int = 0,
    ) -> None:
        agreement.check(dataset)
        self.dataset, self.transform, self.fields = dataset, transform, fields
        self.seed, self.epoch = seed, 0
        self._decode = Decoder(decode)
        self._collate = collate_fn or functools.partial(collate, raw=self._decode.raw, memory=batch_memory())
        self._chancy = transform is not None and takes_chance(transform)

    def set_epoch(self, epoch: int) -> None:
        """The epoch that random transforms are keyed by, where the sampler is not a BatchSampler of ours."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        """A sample, or a batch that is put together if index is a list."""
        if isinstance(index, (list, tuple)):
            return self._collate(self.__getitems__(index))
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Samples, with one request."""
        epoch, seed = getattr(indices, "epoch", self.epoch), getattr(indices, "seed", self.seed)
        numbers = self.dataset._checked(indices)
        samples: list[Any] = []
        for i, sample in zip(numbers, self.dataset.read(numbers, self.fields)):
            if isinstance(sample, SampleError):
                raise sample
            decoded: Any = {k: v if k[:2] == "__" else self._decode(k, v) for k, v in sample.items()}
            if self.transform is not None and self._chancy:
                decoded = self.transform(decoded, chance(seed, epoch, *self.dataset.number(i)))
            elif self.transform is not None:
                decoded = self.transform(decoded)
            elif not self._decode.raw:
                decoded = {k: bytes(v) if isinstance(v, memoryview) else v for k, v in decoded.items()}
            samples.append(decoded)
        return samples


class _Pass(Iterator[list[int]]):
    """What a BatchSampler gives in one loop. It begins with its first batch: until then the sampler may be moved.

    It has a state beside that of the sampler, for torchdata's StatefulDataLoader: behind the last batch the run goes on
    with the next epoch, but the loop that was interrupted has nothing more to give.
    """

    def __init__(self, sampler: BatchSampler) -> None:
        self._sampler = sampler
        self._at: tuple[int, int] | None = None  # epoch and step that are next

    def __next__(self) -> list[int]:
        of = self._sampler._loader
        if self._at is None:
            self._at = self._sampler._begun = self._next()
        epoch, step = self._at
        if step >= len(of):
            if (of._epoch, of._step) == self._at:  # or else somebody moved the sampler
                of._epoch, of._step = epoch + 1, 0
            raise StopIteration
        numbers = of.samples_at(epoch, step)
        of._epoch, of._step = self._at = epoch, step + 1
        return _batch(numbers, epoch, self._sampler._seed)

    def _next(self) -> tuple[int, int]:
        if self._at is not None:
            return self._at
        of = self._sampler._loader
        # A loop that was left after the last batch never came to its end.
        return (of._epoch, of._step) if of._step < len(of) else (of._epoch + 1, 0)

    def state_dict(self) -> dict[str, int]:
        epoch, step = self._next()
        return {"epoch": epoch, "step": step}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self._at = state["epoch"], state["step"]


class BatchSampler:
    """The batches of one rank as lists of numbers, in the order that a loader has.

    torch's DataLoader draws batches ahead of the loop. So that state counts what was consumed, say how
    many batches of the epoch that is: state_dict(batches).
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        batch_size: int | None = None,
        global_batch: int | None = None,
        seed: int = 0,
        shuffle: Any = "window:2GiB",
        drop_last: bool = True,
        pad: str = "drop",
        dp_rank: int | None = None,
        dp_size: int | None = None,
        mesh: Any = None,
    ) -> None:
        if pad == "mask":  # there is nowhere in a list of numbers to say which of them are real
            raise Invalid('a BatchSampler carries no mask: use penstock.torch.loader, or pad="repeat"')
        rank, size = ranks(dp_rank, dp_size, mesh)
        self._loader = Loader(
            dataset,
            batch_size=batch_size,
            global_batch=global_batch,
            seed=seed,
            shuffle=shuffle,
            drop_last=drop_last,
            pad=pad,
            dp_rank=rank,
            dp_size=size,
        )
        self._seed = seed
        self._begun = 0, 0  # epoch and step that the last iteration began at

    def __len__(self) -> int:
        """The number of batches that the next iteration has: those that are left of the epoch, or all of the next."""
        left = len(self._loader) - self._loader.step
        return left if left > 0 else len(self._loader)

    def __iter__(self) -> Iterator[list[int]]:
        """The rest of the current epoch, or the next one if it is at its end."""
        return _Pass(self)

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self._loader.epoch

    @property
    def batch_sampler(self) -> BatchSampler:
        """The sampler itself: the Trainer of transformers tells the epoch to what a sampler has under this name."""
        return self

    @property
    def batch_size(self) -> int:
        """Samples in a batch, where data is not divided among ranks.

        Where it is, who asks is about to divide it once more, and most of it would never be used.
        """
        if self._loader.dp_size > 1:
            raise Invalid(
                "this sampler divides the data among ranks already, and prepare() would do so again: use its DataLoader "
                "as it is"
            )
        return self._loader.batch_size

    def state_dict(self, batches: int | None = None) -> dict[str, Any]:
        """Where the run is, if so many batches were consumed since the iteration began; else all that were drawn."""
        of = self._loader
        if batches is None:
            return of.state_dict()
        epoch, step = self._begun
        if step + batches >= len(of):
            return of._plan.state(epoch + 1, 0)
        return of._plan.state(epoch, (step + batches) * of.global_batch)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken."""
        self._loader.load_state_dict(state)
        self._begun = self._loader._epoch, self._loader._step

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch, unless it is the current one."""
        self._loader.set_epoch(epoch)
        self._begun = self._loader._epoch, self._loader._step
