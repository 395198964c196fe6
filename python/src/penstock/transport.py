"""Requests to one node: sent, repeated where that does no harm, and answered or failed.

A request that may be repeated is, a few times and with growing pauses, when the node
is busy or the connection breaks. One that was waited for long enough, that finds no
node, or that the node refuses for a reason of its own fails at once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from penstock.answer import Answer
from penstock.connection import Connection, Garbled
from penstock.endpoint import Endpoint
from penstock.errors import Internal, PenstockError, Timeout, Unavailable
from penstock.memory import Memory
from penstock.payload import Payload, Unreadable
from penstock.pool import Pool
from penstock.refusal import decode, refusal

__all__ = ["Call", "Failure", "Transport", "backoff"]

T = TypeVar("T")

# How long a call is held up in all by pauses between attempts. Who wants to wait
# longer for a disk or node to come back decides that better outside.
_PATIENCE = 15.0

# From this size on a body waits until the node has said that it wants it. Below it
# the round trip costs more than a body sent in vain.
_EXPECT = 1 << 20
_EXPECT_WAIT = 2.0

_MAX_JSON = 16 << 20  # a page of 1000 keys of 1024 bytes, every byte escaped, is below it


@dataclass(frozen=True)
class Call:
    """One request, perhaps sent several times."""

    method: str
    path: str  # escaped, with its query, below the endpoint
    what: str  # what it is about, for messages
    headers: Mapping[str, str] = field(default_factory=dict)
    payload: Payload | None = None
    once: bool = False  # to repeat it is not the same as to send it once


@dataclass(frozen=True)
class Failure:
    """An attempt that did not succeed: what to tell the caller, and whether another may help."""

    error: PenstockError
    again: bool = False


class Transport:
    """Sends calls to one endpoint. It may be used by many threads."""

    def __init__(self, endpoint: Endpoint, authorization: str, timeout: float, attempts: int, ca_file: str | None) -> None:
        self.endpoint = endpoint
        self.timeout = timeout
        self.attempts = attempts
        self.pool = Pool(endpoint, ca_file, timeout)
        self.memory = Memory()
        self._common = f"Host: {endpoint.authority}\r\nUser-Agent: penstock-python\r\n"
        if authorization:
            self._common += f"Authorization: {authorization}\r\n"

    def run(self, call: Call, consume: Callable[[Answer], T]) -> T:
        """Send a call and give its answer to consume, which is part of what is repeated.

        If consume returns it has closed the answer, or keeps it open on purpose.
        """
        attempt, waited = 0, 0.0
        repeatable = not call.once and (call.payload is None or call.payload.repeatable)
        while True:
            attempt += 1
            result = self._attempt(call, consume)
            if not isinstance(result, Failure):
                return result
            # What the node asks for, and a little apart from the others.
            wait = result.error.retry_after + backoff(attempt)
            waited += wait
            if not (result.again and repeatable) or attempt >= self.attempts or waited > _PATIENCE:
                result.error.attempts = attempt
                try:
                    raise result.error
                finally:
                    del result  # or else the error holds this frame and the frame the error, until the collector comes
            time.sleep(wait)

    def head(self, call: Call, parse: Callable[[Answer], T]) -> T:
        """Send a call of whose answer only the head matters."""

        def consume(answer: Answer) -> T:
            value = parse(answer)
            answer.close()
            return value

        return self.run(call, consume)

    def json(self, call: Call, parse: Callable[[dict[str, object]], T]) -> T:
        """Send a call that is answered with a JSON object, and parse that."""

        def consume(answer: Answer) -> T:
            text = answer.read(_MAX_JSON)
            if not answer.ended:
                raise Garbled(f"it is longer than {_MAX_JSON} bytes")
            value = decode(text)
            if value is None:
                raise Garbled(f"{text[:40]!r} is not a JSON object")
            answer.close()
            return parse(value)

        return self.run(call, consume)

    def close(self) -> None:
        """Drop what is kept for later requests. Those under way go on."""
        self.pool.close()
        self.memory.forget()

    def error(self, kind: type[PenstockError], message: str) -> PenstockError:
        """An error that names the endpoint."""
        return kind(f"{message} ({self.endpoint})")

    def failure(self, cause: Exception, what: str) -> Failure:
        """What it means that a connection failed."""
        if isinstance(cause, Garbled):
            failure = Failure(self.error(Internal, f"{what}: unexpected answer, {cause}; is this a Penstock node?"))
        elif isinstance(cause, TimeoutError):
            failure = Failure(self.error(Timeout, str(cause)))
        else:
            reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
            failure = Failure(self.error(Unavailable, f"{what}: {reason}"), again=True)
        # Without where it was raised: those frames hold connections and memory, and sooner or
        # later the error itself, so that nobody but the collector could get rid of any of it.
        cause.__context__ = None
        failure.error.__cause__ = cause.with_traceback(None)
        return failure

    def _attempt(self, call: Call, consume: Callable[[Answer], T]) -> T | Failure:
        connection = self._connect()
        if isinstance(connection, Failure):
            return connection
        answer: Answer | None = None
        try:
            answer = self._exchange(connection, call)
            if 200 <= answer.status < 300:
                return consume(answer)
            error = refusal(answer, call.what, str(self.endpoint))
            answer.close()
            return Failure(error, again=error.kind in ("Busy", "Unavailable"))
        except BaseException as cause:
            connection.close() if answer is None else answer.abort()
            if isinstance(cause, Unreadable):
                raise cause.cause from None  # the caller's own error, about what it wants to send
            if isinstance(cause, (OSError, Garbled)) and not isinstance(cause, PenstockError):
                return self.failure(cause, call.what)
            raise

    def _connect(self) -> Connection | Failure:
        try:
            return self.pool.take()
        except ConnectionRefusedError:
            return Failure(Unavailable(f"no node at {self.endpoint}: start one with `penstock serve`"))
        except TimeoutError as cause:
            return Failure(Timeout(f"no node at {self.endpoint}: {cause}"))
        except OSError as cause:
            # A host nobody knows, a certificate nobody vouches for: it would come again at once.
            reason = getattr(cause, "verify_message", None) or cause.strerror or cause
            return Failure(Unavailable(f"no node at {self.endpoint}: {reason}"))

    def _exchange(self, connection: Connection, call: Call) -> Answer:
        """Send a call and receive the head of its answer."""
        head = f"{call.method} {self.endpoint.path}{call.path} HTTP/1.1\r\n{self._common}"
        head += "".join(f"{name}: {value}\r\n" for name, value in call.headers.items())
        payload = call.payload
        unasked = False  # the node answered before it had the body
        if payload is None:
            connection.send([f"{head}\r\n".encode()], call.what)
        elif payload.length is not None and payload.length < _EXPECT:
            connection.send([f"{head}{payload.framing}\r\n".encode(), *payload.framed()], call.what)
        else:
            connection.send([f"{head}{payload.framing}Expect: 100-continue\r\n\r\n".encode()], call.what)
            unasked = not self._send_wanted(connection, payload, call.what)
        answer = Answer.receive(connection, self.pool, call.method, what=call.what, timeout=self.timeout)
        if unasked:
            answer.keep = False
        return answer

    def _send_wanted(self, connection: Connection, payload: Payload, what: str) -> bool:
        """Send a large body, unless the node says that it does not want it."""
        if connection.stirs(_EXPECT_WAIT) and not connection.skip_continue(self.timeout, what):
            return False
        try:
            connection.send(payload.framed(), what)
        except ConnectionError:
            # A node that refuses a body in the middle says why before it closes.
            if not connection.stirs(0):
                raise
            return False
        return True


def backoff(attempt: int) -> float:
    """How long to wait after the n-th attempt, n from 1: a random time below a bound
    that doubles, so that many clients do not come back together."""
    return random.uniform(0.001, min(0.05 * 2 ** min(attempt - 1, 10), 3.0))
