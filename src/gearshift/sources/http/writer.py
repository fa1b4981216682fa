"""Writes the records of requests: each request atomically, many requests per transaction."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from gearshift.errors import FencedError, GearshiftError, ProduceError
from gearshift.sources.http.bodies import Record, Refusal
from gearshift.topics import MarkedTransactions
from gearshift.topics.marks.remembered import SIZE, Remembered

if TYPE_CHECKING:
    from gearshift.connection import Connection

log = logging.getLogger(__name__)

REMEMBERED = timedelta(days=1)
# How long a source that was killed blocks its readers. Nothing waits while a transaction is open, so only unresponsive
# brokers make one last.
_TRANSACTION_TIMEOUT = timedelta(seconds=15)
_TRANSACTION_RECORDS = 20_000
# Brokers finish a transaction a moment after they respond to its commit, and delay one that begins earlier by 20 ms. A
# short pause is faster, and requests that arrive in it join the next transaction.
_PAUSE_AFTER_COMMIT = 0.003  # seconds


@dataclass(frozen=True, slots=True)
class Written:
    """The response to a request whose records are committed, by this request or an earlier one with its key."""

    records: int
    repeated: bool = False

    def as_json(self) -> dict[str, int]:
        """The response body."""
        return {"written": self.records, **({"repeated": True} if self.repeated else {})}


@dataclass(frozen=True, slots=True)
class Request:
    """The records of one request, with its Idempotency-Key and the digest of its body."""

    topic: str
    records: list[Record]
    key: str | None = None
    body: str = ""
    result: Future[Written] = field(default_factory=Future[Written], compare=False)

    @classmethod
    def of(cls, topic: str, records: list[Record], key: str | None, body: bytes) -> Request:
        """A request; two requests of a topic with the same key and body are the same."""
        if key is None:
            return cls(topic, records)
        return cls(topic, records, f"{topic}/{key}", hashlib.blake2b(body, digest_size=16).hexdigest())


class KnownKeys:
    """The Idempotency-Keys of the last day with the digests of their bodies: about forty bytes each."""

    def __init__(self) -> None:
        self.read_to = 0
        self._known = Remembered(REMEMBERED)

    def came_before(self, request: Request) -> bool:
        """Whether the key of a request was used within a day; Refusal if it was with another body."""
        if request.key is None or _digest(request.key.encode()) not in self._known:
            return False
        if _digest(request.key.encode(), request.body.encode()) not in self._known:
            raise Refusal(422, "this Idempotency-Key was used with another body", hint="use a new key")
        return True

    def learn(self, name: bytes, value: bytes, at: float) -> None:
        """Add a key and the digest of its body."""
        self._known.add(_digest(name), at)
        self._known.add(_digest(name, value.partition(b" ")[0]), at)


class RequestWriter:
    """A thread that writes all requests that arrived during the last commit in one transaction."""

    def __init__(self, connection: Connection, marks: str) -> None:
        self.error: str | None = None
        self.sent = 0
        self._connection = connection
        self._marks = marks
        self._waiting: deque[Request] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._transactions: MarkedTransactions | None = None
        self._keys = KnownKeys()
        self._thread = threading.Thread(target=self._run, name=f"requests {marks}", daemon=True)

    def open(self) -> None:
        """Start writing."""
        self._thread.start()

    def close(self) -> None:
        """Write the submitted requests, then stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout=60)

    def submit(self, request: Request) -> Future[Written]:
        """Submit a request; the future completes when its records are committed, or raises Refusal."""
        with self._changed:
            if self._closing:
                raise unavailable("the app is stopping")
            self._waiting.append(request)
            self._changed.notify()
        return request.result

    def _run(self) -> None:
        try:
            self._opened()  # a day of keys takes a while to read: do it before the first request
        except GearshiftError as error:
            self._fail([], error)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                group = self._next_group()
            if not group:
                break
            self._write(group)
            time.sleep(_PAUSE_AFTER_COMMIT)
        if self._transactions is not None:
            try:
                self._transactions.close()
            except GearshiftError as error:
                log.warning("%s: %s", self._marks, error)

    def _next_group(self) -> list[Request]:
        """The requests for one transaction; of two with the same key only the first."""
        group: list[Request] = []
        keys: set[str] = set()
        count = 0
        while self._waiting and self._waiting[0].key not in keys:
            count += len(self._waiting[0].records)
            if group and count > _TRANSACTION_RECORDS:
                break
            request = self._waiting.popleft()
            if request.key is not None:
                keys.add(request.key)
            group.append(request)
        return group

    def _write(self, group: list[Request]) -> None:
        try:
            transactions = self._opened()
            fresh = [request for request in group if not self._answered(request)]
            if fresh:
                self._commit(transactions, fresh)
            self.error = None
        except FencedError as error:
            self._fail(group, error)  # the next request opens transactions again
        except ProduceError as error:
            # A record is larger than its topic's limit. Writing each request separately finds out which.
            self._transactions = None
            if len(group) > 1:
                for request in group:
                    self._write([request])
            else:
                _refuse(group[0], Refusal(413, error.what, hint=error.hint))
        except GearshiftError as error:
            self._fail(group, error)
        except Exception as error:
            log.exception("%s raised", self._marks)
            self._fail(group, error)

    def _commit(self, transactions: MarkedTransactions, requests: list[Request]) -> None:
        transactions.begin()
        for request in requests:
            for key, value in request.records:
                transactions.send_bytes(request.topic, value, key=key)
            if request.key is not None:
                transactions.note(request.key.encode(), request.body.encode())
        transactions.commit()
        for request in requests:
            self.sent += len(request.records)
            if not request.result.done():
                request.result.set_result(Written(len(request.records)))

    def _answered(self, request: Request) -> bool:
        """Answer a repeated request; True also if it was answered already."""
        if request.result.done():
            return True
        try:
            if not self._keys.came_before(request):
                return False
            request.result.set_result(Written(len(request.records), repeated=True))
        except Refusal as refusal:
            _refuse(request, refusal)
        return True

    def _opened(self) -> MarkedTransactions:
        if self._transactions is None:
            self._transactions = MarkedTransactions(
                self._connection, self._marks, self._keys, kept=REMEMBERED, within=_TRANSACTION_TIMEOUT
            )
        return self._transactions

    def _fail(self, group: list[Request], error: Exception) -> None:
        """Fail all waiting requests; the next request tries again."""
        # The marks, read when transactions are opened again, show whether the last one was committed.
        self._transactions = None
        self.error = str(error)
        log.error("%s: %s", self._marks, error)
        with self._changed:
            group = [*group, *self._waiting]
            self._waiting.clear()
        for request in group:
            if not request.result.done():
                _refuse(request, unavailable(f"cannot write the records to Kafka: {error}"))


def unavailable(message: str) -> Refusal:
    """A refusal after which the client should repeat the same request."""
    return Refusal(503, message, hint="send it again, with the same Idempotency-Key", retry_after=5)


def _refuse(request: Request, refusal: Refusal) -> None:
    request.result.set_exception(refusal)


def _digest(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"\0".join(parts), digest_size=SIZE).digest()
