"""The state of a training run's data: where in which sequence it is.

It is small and plain, and the same on all ranks. Whoever has it goes on with the same
sequence of global batches, on any number of ranks. What does not fit is an error that
says what.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import Invalid, Stale
from penstock.order import ALGORITHM

__all__ = ["Plan"]

_FORMAT = 1


@dataclass(frozen=True)
class Plan:
    """Everything that a sequence of global batches depends on."""

    dataset: str
    version: int
    logical: str
    selection: str
    shuffle: str
    seed: int
    global_batch: int
    drop_last: bool
    pad: str

    def state(self, epoch: int, position: int) -> dict[str, Any]:
        """The state in which position samples of an epoch were delivered to all ranks together."""
        return {"format": _FORMAT, "order": ALGORITHM, **self.__dict__, "epoch": epoch, "position": position}

    def load(self, state: Mapping[str, Any]) -> tuple[int, int]:
        """The epoch and position of a state that belongs to this plan, or an error that says why it does not."""
        if not isinstance(state, Mapping) or "format" not in state:
            raise Invalid("this is not the state of a loader")
        if state["format"] != _FORMAT or state.get("order") != ALGORITHM:
            raise Invalid(
                f"the state has format {state['format']} and order {state.get('order')!r}; this version reads format "
                f"{_FORMAT} and order {ALGORITHM!r}"
            )
        wrong = []
        for name, mine in self.__dict__.items():
            theirs = state.get(name)
            if theirs == mine or name in ("dataset", "version"):
                continue  # the same samples under another name are the same
            if name == "logical":
                was, now = f"{state.get('dataset')}@{state.get('version')}", f"{self.dataset}@{self.version}"
                wrong.append(
                    f"it is of the dataset {was} with the samples {str(theirs)[:12]}, not {now} with {mine[:12]}"
                )
            elif name == "global_batch":
                wrong.append(
                    f"its global batch is {theirs}, not {mine}: pass global_batch={theirs}, or a batch_size that gives it"
                )
            elif name == "selection":
                wrong.append(
                    f"it is of {'another selection of' if theirs and mine else 'all of' if mine else 'a selection of'} the dataset"
                )
            else:
                wrong.append(f"its {name} is {theirs!r}, not {mine!r}")
        epoch, position = state.get("epoch"), state.get("position")
        if not _natural(epoch) or not _natural(position):
            wrong.append(f"its epoch is {epoch!r} and its position {position!r}")
        if wrong:
            raise Stale("the state does not fit this loader: " + "; ".join(wrong))
        assert isinstance(epoch, int) and isinstance(position, int)
        return epoch, position


def _natural(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
