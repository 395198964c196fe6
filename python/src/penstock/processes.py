"""Make batches ahead of the consumer, in processes.

Each worker has a pipe: numbers of batches go out, batches come back (carry.py). The consumer
gives the next batch to whoever has least to do, and puts what comes in order. A worker
ends when its pipe does, or its parent; it holds nothing that others wait for.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
import weakref
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from penstock.carry import Inbox, Outbox
from penstock.engine import Engine, Made
from penstock.errors import Internal
from penstock.workers import Task

__all__ = ["Processes"]


class _Failed:
    """An error on its way between processes."""

    def __init__(self, error: BaseException) -> None:
        self.trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.error = error.with_traceback(None)
        error.__cause__ = error.__context__ = None  # told by the trace, and perhaps not to be pickled
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # an error that cannot be made from its arguments would fail over there
            self.error = Internal(f"{type(error).__name__}: {error}")

    def raised(self) -> BaseException:
        self.error.__cause__ = _Remote(self.trace)
        return self.error


class _Remote(Exception):
    """The trace of an error in a worker, shown above the error itself."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"


class _Worker:
    def __init__(self, process: Any, connection: Connection) -> None:
        self.process, self.connection, self.inbox = process, connection, Inbox(connection)
        self.tasks = 0  # that it has


_started: weakref.WeakSet[Processes] = weakref.WeakSet()


class Processes:
    """Makes batches in processes: for transforms in Python."""

    def __init__(self, engine: Engine, count: int, ahead: int, context: Any) -> None:
        self._engine, self._count, self._ahead = engine, count, ahead
        named = context is None or isinstance(context, str)
        self._context: Any = multiprocessing.get_context(context) if named else context
        self._workers: list[_Worker] = []
        self._process = 0
        self._run = 0

    def run(self, tasks: Iterator[Task]) -> Iterator[Made]:
        self._start()
        self._run += 1
        run, asked, wanted = self._run, 0, 0
        ready: dict[int, Made | _Failed] = {}
        most = -(-self._ahead // self._count)
        more = True
        while True:
            while more and asked < wanted + self._ahead:
                worker = min(self._workers, key=lambda worker: worker.tasks)
                if worker.tasks >= most:  # with what an iteration before has left
                    break
                if (task := next(tasks, None)) is None:
                    more = False
                    break
                self._give(worker, (run, asked, *task))
                asked += 1
            if asked == wanted and not more:
                return
            if wanted not in ready:
                self._receive(run, ready)
                if self._run != run:
                    raise Internal("the loader was begun again while it was waited for")
                continue
            made = ready.pop(wanted)
            wanted += 1
            if isinstance(made, _Failed):
                raise made.raised()
            yield made
            del made  # its memory can be used again

    def _give(self, worker: _Worker, task: tuple[int, ...]) -> None:
        try:
            worker.connection.send_bytes(_pack((*task, *worker.inbox.released())))
        except OSError:
            self._died(worker)
        except BaseException:
            self.close()
            raise
        worker.tasks += 1

    def _receive(self, run: int, ready: dict[int, Made | _Failed]) -> None:
        """Wait until a worker has made something, and take it."""
        by_end: dict[Any, _Worker] = {worker.connection: worker for worker in self._workers}
        by_end.update({worker.process.sentinel: worker for worker in self._workers})
        ends = wait(list(by_end))
        for end in ends:
            worker = by_end[end]
            if isinstance(end, int) and worker.connection.poll():
                continue  # it died, but said something before
            if isinstance(end, int):
                self._died(worker)
            try:
                of, number, result = worker.inbox.receive()
            except (EOFError, OSError):
                self._died(worker)
            except BaseException:  # Ctrl-C in the middle of a message: what follows it makes no sense any more
                self.close()
                raise
            worker.tasks -= 1
            if of == run:
                ready[number] = result

    def _died(self, worker: _Worker) -> None:
        worker.process.join(5)
        code = worker.process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with status {code}"
        hint = "; is there enough memory?" if code == -9 else ""
        pid = worker.process.pid
        self.close()
        raise Internal(f"worker process {pid} {how} while it made a batch{hint}")

    def _start(self) -> None:
        if self._workers and self._process == os.getpid():
            return
        self._workers, self._process = [], os.getpid()
        _started.add(self)
        forked = self._context.get_start_method() == "fork"
        for number in range(self._count):
            here, there = self._context.Pipe()
            # A child that is forked has the ends of its siblings open, and of other loaders' workers: they would
            # not see the consumer go.
            others = [worker.connection for crew in list(_started) for worker in list(crew._workers)]
            inherited = [*others, here] if forked else []
            process = self._context.Process(
                target=_work, args=(self._engine, there, inherited), name=f"penstock-{number}", daemon=True
            )
            process.start()
            there.close()
            self._workers.append(_Worker(process, here))
        weakref.finalize(self, _dismiss, self._workers, self._process)

    def close(self) -> None:
        workers, self._workers = self._workers, []
        _dismiss(workers, self._process)


def _pack(task: tuple[int, ...]) -> bytes:
    return b" ".join(b"%d" % number for number in task)


def _dismiss(workers: list[_Worker], process: int) -> None:
    if process != os.getpid():
        return
    for worker in workers:
        worker.connection.close()  # which ends it
    deadline = time.monotonic() + 1  # for all of them together
    for worker in workers:
        worker.process.join(max(deadline - time.monotonic(), 0))
    late = [worker for worker in workers if worker.process.is_alive()]  # in the middle of something long
    for worker in late:
        worker.process.terminate()
    for worker in late:
        worker.process.join(5)
    workers.clear()


def _work(engine: Engine, connection: Connection, inherited: list[Connection]) -> None:
    """What a worker process does until the consumer goes away."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the consumer, who ends us
    for end in inherited:
        end.close()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)  # there are as many workers as there is work for
    parent = multiprocessing.parent_process()
    outbox = Outbox(connection)
    ends: list[Any] = [connection] if parent is None else [connection, parent.sentinel]
    while True:
        if connection not in wait(ends):
            return
        try:
            run, number, epoch, step, *released = map(int, connection.recv_bytes().split())
        except (EOFError, OSError):
            return
        for shared in released:
            outbox.free(shared)
        result: Made | _Failed
        try:
            result = engine.make(epoch, step)
        except Exception as error:
            result = _Failed(error)
        try:
            _answer(outbox, run, number, result)
        except OSError:
            return


def _answer(outbox: Outbox, run: int, number: int, result: Made | _Failed) -> None:
    try:
        outbox.send((run, number, result))
    except OSError:
        raise
    except Exception as error:  # it cannot be pickled
        outbox.send((run, number, _Failed(Internal(f"a batch cannot be sent from a worker: {error}"))))
