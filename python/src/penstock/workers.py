"""Make batches ahead of the consumer: in threads, or not ahead at all. processes.py has the third way.

Every kind takes tasks, pairs of epoch and step, and gives what was made of them in their
order. It keeps a bounded number in work: a consumer that is slow makes workers wait.
Workers start with the first task and stay until the loader is closed or collected.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator

from penstock.engine import Engine, Made
from penstock.errors import Internal

__all__ = ["Inline", "Task", "Threads"]

Task = tuple[int, int]

_PATIENCE = 10.0  # seconds for a batch that nobody wants any more


class Inline:
    """Makes each batch when it is asked for."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def run(self, tasks: Iterator[Task]) -> Iterator[Made]:
        for epoch, step in tasks:
            yield self._engine.make(epoch, step)

    def close(self) -> None:
        pass


class _Crew:
    """Threads that share a queue. Apart from Threads, so that they do not keep it alive."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.change = threading.Condition()
        self.waiting: deque[tuple[int, int, Task]] = deque()
        self.ready: dict[tuple[int, int], Made | BaseException] = {}
        self.run = 0
        self.closed = False
        self.threads: list[threading.Thread] = []

    def work(self) -> None:
        while True:
            with self.change:
                while not self.waiting and not self.closed:
                    self.change.wait()
                if self.closed:
                    return
                run, number, task = self.waiting.popleft()
            result: Made | BaseException
            try:
                result = self.engine.make(*task)
            except BaseException as error:
                result = error
            with self.change:
                if run == self.run:  # or else nobody wants it any more
                    self.ready[run, number] = result
                    self.change.notify_all()


class Threads:
    """Makes batches in threads: for work that leaves Python's lock alone, such as reading and most of PIL."""

    def __init__(self, engine: Engine, count: int, ahead: int) -> None:
        self._engine, self._count, self._ahead = engine, count, ahead
        self._crew: _Crew | None = None
        self._process = 0

    def run(self, tasks: Iterator[Task]) -> Iterator[Made]:
        crew = self._start()
        with crew.change:
            crew.run += 1
            crew.waiting.clear()
            crew.ready.clear()
            run = crew.run
        asked = wanted = 0
        while True:
            with crew.change:
                while asked < wanted + self._ahead and (task := next(tasks, None)) is not None:
                    crew.waiting.append((run, asked, task))
                    asked += 1
                    crew.change.notify()
                if asked == wanted:
                    return
                while (run, wanted) not in crew.ready:
                    if crew.closed or crew.run != run:
                        raise Internal("the loader was closed, or begun again, while it was waited for")
                    crew.change.wait()
                made = crew.ready.pop((run, wanted))
            wanted += 1
            if isinstance(made, BaseException):
                raise made
            yield made

    def _start(self) -> _Crew:
        if self._crew is None or self._process != os.getpid():  # threads do not survive a fork
            crew = self._crew = _Crew(self._engine)
            self._process = os.getpid()
            for number in range(self._count):
                crew.threads.append(threading.Thread(target=crew.work, name=f"penstock-{number}", daemon=True))
                crew.threads[-1].start()
            weakref.finalize(self, _stop, crew, self._process)
        return self._crew

    def close(self) -> None:
        crew, self._crew = self._crew, None
        if crew is not None:
            _stop(crew, self._process)


def _stop(crew: _Crew, process: int) -> None:
    """End the threads, and wait until they have. At exit, one that is inside of torch would otherwise abort the process."""
    if process != os.getpid():
        return
    with crew.change:
        crew.closed = True
        crew.change.notify_all()
    for thread in crew.threads:
        if thread is not threading.current_thread():
            thread.join(_PATIENCE)
