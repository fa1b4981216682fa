"""Records on their way to a page: excerpts of a topic, and what arrives on it."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from anyio.to_thread import run_sync

from gearshift.console.events import event
from gearshift.console.problems import described
from gearshift.errors import GearshiftError
from gearshift.schemas.printing import Printer
from gearshift.topics.browsing import Wanted, all_records
from gearshift.topics.excerpt import Excerpt
from gearshift.topics.reader import ConsumedRecord, Tail
from gearshift.topics.record_data import record_data

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.topics.partitions import Offsets

LARGEST_ANSWER = 8 << 20
"""Bytes of JSON; one record may be larger."""
_LARGEST_EVENT = 1 << 20
_SHOWN = 50
_INTERVAL = 0.5
_KEEP_ALIVE = 10.0
_DRAIN = timedelta(milliseconds=200)
_FILTER = 0.1
"""Seconds of every interval in which records are compared with a filter; the others are counted as skipped."""

T = TypeVar("T")
Filter = Callable[[Printer], Wanted]


def json_of(data: Any) -> str:
    """JSON; text that is not valid Unicode, which a record may contain, is escaped."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text if text.isascii() or _is_unicode(text) else json.dumps(data, separators=(",", ":"))


def answer(found: Excerpt, printer: Printer) -> str:
    """An excerpt as JSON: of one that is too large, the records nearest to where it begins."""
    written: list[str] = []
    size = 0
    for record in found.records if found.forward else reversed(found.records):
        text = json_of(record_data(record, printer))
        size += len(text.encode())
        if written and size > LARGEST_ANSWER:
            break
        written.append(text)
    complete = found.complete and len(written) == len(found.records)
    in_order = written if found.forward else reversed(written)
    return f'{{"records":[{",".join(in_order)}],"complete":{json.dumps(complete)}}}'


async def arriving(
    connection: Connection, start: Offsets, wanted: Filter, closing: Callable[[], bool]
) -> AsyncIterator[str]:
    """Server-sent events with the records from these offsets on, until the server closes.

    The connections to Kafka are used by one thread at a time, and are closed with this iterator.
    """
    feed = await run_sync(_Feed, connection, start, wanted)
    try:
        yield ": the tail is open\n\n"
        quiet_since = time.monotonic()
        while not closing():
            found = await run_sync(feed.next)
            if found is not None:
                yield event("records", found)
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > _KEEP_ALIVE:
                yield ": still open\n\n"
                quiet_since = time.monotonic()
            await anyio.sleep(_INTERVAL)
    except GearshiftError as error:
        yield event("problem", json_of({"error": described(error)}))
    finally:
        with anyio.CancelScope(shield=True):
            await run_sync(feed.close)


class _Feed:
    """The records that arrived since the last look, as JSON."""

    def __init__(self, connection: Connection, start: Offsets, wanted: Filter) -> None:
        self._opened = Printer.of(connection)
        self._printer = self._opened.__enter__()
        self._wanted = wanted(self._printer)
        self._tail = Tail(connection, (), start=start)

    def next(self) -> str | None:
        """The newest records; None if none arrived."""
        records, skipped = self._newest() if self._wanted is all_records else self._filtered()
        written: list[str] = []
        size = 0
        for record in reversed(records):
            text = json_of(record_data(record, self._printer))
            size += len(text.encode())
            if written and size > _LARGEST_EVENT:
                break
            written.append(text)
        skipped += len(records) - len(written)
        if not written and not skipped:
            return None
        return f'{{"records":[{",".join(reversed(written))}],"skipped":{skipped}}}'

    def close(self) -> None:
        """Close the connections."""
        self._tail.__exit__(None, None, None)
        self._opened.__exit__(None, None, None)

    def _newest(self) -> tuple[list[ConsumedRecord], int]:
        return self._tail.newest(_SHOWN, _DRAIN)

    def _filtered(self) -> tuple[list[ConsumedRecord], int]:
        deadline = time.monotonic() + _FILTER
        found: list[ConsumedRecord] = []
        while arrived := self._tail.poll(timedelta(0)):
            found += filter(self._wanted, arrived)
            if time.monotonic() > deadline:
                _, skipped = self._tail.newest(0, _DRAIN)
                return found[-_SHOWN:], skipped + len(found[:-_SHOWN])
        return found[-_SHOWN:], len(found[:-_SHOWN])


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
