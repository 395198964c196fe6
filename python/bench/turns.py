"""Measures contenders that take turns, so that noise of the machine hits all of them, and prints a table.

Every contender does the same job in each round. What is printed is the median of the rounds: its rate, the processor
time of this process and everything it has started, servers and workers alike, and how many times as fast the first
contender was in the same round.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

Pass = Callable[[], Iterable[int]]  # does a job and gives how many samples each step of it has read

_TICK = os.sysconf("SC_CLK_TCK")


class Contender(NamedTuple):
    name: str
    run: Pass


class _Turn(NamedTuple):
    rate: float
    cpu: float


def compare(title: str, contenders: list[Contender], *, size: int, rounds: int, seconds: float | None = None) -> None:
    """Let contenders take turns, after one to warm up, and print how they did. A turn is a whole pass, or so many seconds."""
    turns: dict[str, list[_Turn]] = {contender.name: [] for contender in contenders}
    for number in range(rounds + 1):
        for contender in contenders:
            turn = _measure(contender.run, seconds)
            if number:
                turns[contender.name].append(turn)
    print(f"\n{title:<46} {'samples/s':>10} {'GB/s':>6} {'us cpu':>8} {'first is':>9}  lowest..highest")
    first = turns[contenders[0].name]
    for name, its in turns.items():
        ratios = sorted(a.rate / b.rate for a, b in zip(first, its))
        rate, cpu = statistics.median(t.rate for t in its), statistics.median(t.cpu for t in its)
        ratio = f"{statistics.median(ratios):8.2f}x  {ratios[0]:.2f}..{ratios[-1]:.2f}"
        print(f"  {name:<44} {rate:10,.0f} {rate * size / 1e9:6.2f} {cpu * 1e6:8.1f} {ratio}")
    sys.stdout.flush()


def _measure(run: Pass, seconds: float | None) -> _Turn:
    count, cpu, begin = 0, _processor(), time.perf_counter()
    for step in run():
        count += step
        if seconds is not None and time.perf_counter() - begin > seconds:
            break
    took = time.perf_counter() - begin
    return _Turn(count / took, (_processor() - cpu) / count)


def _processor() -> float:
    """Processor time so far of this process, of those it has started, and of theirs."""
    return sum(seconds for _, seconds in _family(os.getpid()))


def _family(pid: int) -> Iterator[tuple[int, float]]:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            values = file.read().rpartition(b")")[2].split()
        children: list[int] = []
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                children += map(int, file.read().split())
    except OSError:  # it has just ended; its parent counts it
        return
    yield pid, sum(map(int, values[11:15])) / _TICK
    for child in children:
        yield from _family(child)
