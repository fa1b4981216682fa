"""Writes what requests bring: the records of each all or none, many requests in one transaction."""

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
from gearshift.sources.bodies import Record, Refusal
from gearshift.topics import MarkedTransactions
from gearshift.topics.remembered import SIZE, Remembered

if TYPE_CHECKING:
    from gearshift.connection import Connection

log = logging.getLogger(__name__)

REMEMBERED = timedelta(days=1)
# Readers wait so long for a port that was killed and does not come back. Nothing is waited for while a transaction is
# open, so only brokers that do not answer make one last.
_WITHIN = timedelta(seconds=15)
_RECORDS_AT_ONCE = 20_000
# The brokers finish a transaction a moment after they have answered its commit. One that begins before that is put off by
# 20 ms; so it is quicker to wait a little, and whoever comes meanwhile is taken along.
_FINISHED_WITHIN = 0.003  # seconds


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a request's records: on the brokers, now or when the same request came before."""

    records: int
    repeated: bool = False

    def as_json(self) -> dict[str, int]:
        """The answer's body."""
        return {"written": self.records, **({"repeated": True} if self.repeated else {})}


@dataclass(frozen=True, slots=True)
class Request:
    """The records of one request, with its Idempotency-Key and what tells its body from another's."""

    topic: str
    records: list[Record]
    key: str | None = None
    body: str = ""
    answer: Future[Written] = field(default_factory=Future[Written], compare=False)

    @classmethod
    def of(cls, topic: str, records: list[Record], key: str | None, body: bytes) -> Request:
        """The request; two of a topic with one key are the same if their bodies are."""
        if key is None:
            return cls(topic, records)
        return cls(topic, records, f"{topic}/{key}", hashlib.blake2b(body, digest_size=16).hexdigest())


class KnownKeys:
    """The Idempotency-Keys of a day, and the bodies that they came with: some forty bytes each."""

    def __init__(self) -> None:
        self.read_to = 0
        self._known = Remembered(REMEMBERED)

    def came_before(self, request: Request) -> bool:
        """Whether the key of a request came within a day; Refusal if it was with another body."""
        if request.key is None or _digest(request.key.encode()) not in self._known:
            return False
        if _digest(request.key.encode(), request.body.encode()) not in self._known:
            raise Refusal(422, "this Idempotency-Key came with another body", hint="use a new key")
        return True

    def learn(self, name: bytes, value: bytes, at: float) -> None:
        """Take note of a key and the digest of its body."""
        self._known.add(_digest(name), at)
        self._known.add(_digest(name, value.partition(b" ")[0]), at)


class Requests:
    """One thread that writes what has come while it wrote the last: a commit serves everyone who waits for it."""

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
        """Begin to write."""
        self._thread.start()

    def close(self) -> None:
        """Write what has come, then end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout=60)

    def submit(self, request: Request) -> Future[Written]:
        """Hand a request over; its answer is there when the records are on the brokers, Refusal if they are not."""
        with self._changed:
            if self._closing:
                raise unavailable("the app is stopping")
            self._waiting.append(request)
            self._changed.notify()
        return request.answer

    def _run(self) -> None:
        try:
            self._opened()  # a day of keys takes a while to read: before somebody waits
        except GearshiftError as error:
            self._fail([], error)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                group = self._next_group()
            if not group:
                break
            self._write(group)
            time.sleep(_FINISHED_WITHIN)
        if self._transactions is not None:
            try:
                self._transactions.close()
            except GearshiftError as error:
                log.warning("%s: %s", self._marks, error)

    def _next_group(self) -> list[Request]:
        """The requests for one transaction; of two with one key only the first."""
        group: list[Request] = []
        keys: set[str] = set()
        count = 0
        while self._waiting and self._waiting[0].key not in keys:
            count += len(self._waiting[0].records)
            if group and count > _RECORDS_AT_ONCE:
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
            self._fail(group, error)  # whoever comes next takes the place back
        except ProduceError as error:
            # One of the records is larger than its topic takes. Which one, each request finds out for itself.
            self._transactions = None
            if len(group) > 1:
                for request in group:
                    self._write([request])
            else:
                _set(group[0], Refusal(413, error.what, hint=error.hint))
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
            if not request.answer.done():
                request.answer.set_result(Written(len(request.records)))

    def _answered(self, request: Request) -> bool:
        """Answer a request that came before; an older one of the same group was answered already."""
        if request.answer.done():
            return True
        try:
            if not self._keys.came_before(request):
                return False
            request.answer.set_result(Written(len(request.records), repeated=True))
        except Refusal as refusal:
            _set(request, refusal)
        return True

    def _opened(self) -> MarkedTransactions:
        if self._transactions is None:
            self._transactions = MarkedTransactions(
                self._connection, self._marks, self._keys, kept=REMEMBERED, within=_WITHIN
            )
        return self._transactions

    def _fail(self, group: list[Request], error: Exception) -> None:
        """Tell everyone who waits: whoever comes next finds out anew."""
        # Whether the last transaction counts is what the marks say once it is opened anew.
        self._transactions = None
        self.error = str(error)
        log.error("%s: %s", self._marks, error)
        with self._changed:
            group = [*group, *self._waiting]
            self._waiting.clear()
        for request in group:
            if not request.answer.done():
                _set(request, unavailable(f"Kafka does not take the records: {error}"))


def unavailable(words: str) -> Refusal:
    """A refusal after which the same request is to be sent again."""
    return Refusal(503, words, hint="send it again, with the same Idempotency-Key", retry_after=5)


def _set(request: Request, refusal: Refusal) -> None:
    request.answer.set_exception(refusal)


def _digest(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"\0".join(parts), digest_size=SIZE).digest()
