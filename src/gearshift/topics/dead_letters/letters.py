"""Reads dead letters: which are open, what failed on them, and why."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, cast

from gearshift.errors import SettingsError
from gearshift.topics.admin import Admin
from gearshift.topics.client import missing
from gearshift.topics.dead_letters.writer import CONNECT, OURS, RESULT_FOR
from gearshift.topics.partitions import PartitionOffset
from gearshift.topics.reader import ConsumedRecord, read

if TYPE_CHECKING:
    from gearshift.connection import Connection

SUFFIX = ".dlq"
SETTLES = "gearshift.settles"
"""Header of a record without value: the settled dead letters, as JSON `[[partition, offset], …]`."""
SETTLED_AS = "gearshift.settled-as"
FIELDS = ("delivery", "pipeline", "exception", "reason", "partition", "offset")


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter, with its position and that of the record that failed."""

    position: PartitionOffset
    """Its partition and offset on the dead-letter topic."""
    origin: PartitionOffset | None
    """The record's partition and offset on the topic itself; None if the headers do not have it."""
    failed_in: str
    delivery: str | None
    group_id: str | None
    stage: str
    exception: str
    reason: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    written: datetime | None

    @classmethod
    def of(cls, record: ConsumedRecord) -> Letter:
        """Parse a record of a dead-letter topic."""

        def header(name: str) -> str | None:
            value = record.header(name)
            return None if value is None else value.decode("utf-8", "replace")

        partition, offset = header(f"{CONNECT}partition"), header(f"{CONNECT}offset")
        known = partition is not None and offset is not None and partition.isdecimal() and offset.isdecimal()
        return cls(
            position=(record.partition, record.offset),
            origin=(int(partition or 0), int(offset or 0)) if known else None,
            failed_in=header(f"{CONNECT}connector.name") or "?",
            delivery=header(f"{OURS}delivery"),
            group_id=header(f"{OURS}group_id"),
            stage=header(f"{CONNECT}stage") or "?",
            exception=header(f"{CONNECT}exception.class.name") or "?",
            reason=header(f"{CONNECT}exception.message") or header(f"{OURS}reason") or "?",
            key=record.key,
            value=record.value,
            headers=record.headers,
            written=record.timestamp,
        )

    @property
    def row(self) -> str | None:
        """The file and line of a file's row that never was a record; None for a record."""
        found = {name: value.decode("utf-8", "replace") for name, value in self.headers if value is not None}
        file, line = found.get(f"{OURS}file"), found.get(f"{OURS}line")
        return None if file is None else f"{file}:{line}"

    @property
    def result_for(self) -> str | None:
        """The topic or table that rejected this row of a pipeline's result; None for a record."""
        found = next((value for name, value in self.headers if name == RESULT_FOR), None)
        return None if found is None else found.decode("utf-8", "replace")

    @property
    def pipeline(self) -> str | None:
        """The name of the pipeline that failed, if it was one."""
        return None if self.group_id is not None else self.failed_in.rpartition(".")[2]

    @property
    def idempotency_key(self) -> bytes | None:
        """The idempotency key of the delivery that failed, if it has one."""
        return next((value for name, value in self.headers if name == f"{OURS}idempotency_key"), None)

    @property
    def size(self) -> int:
        """The size of key and value in bytes."""
        return len(self.key or b"") + len(self.value or b"")


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects letters that match one value of every field that it names."""

    wanted: Mapping[str, tuple[str, ...]]

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Filter:
        """Parse `field=value` texts.

        >>> Filter.parse(["delivery=text_owner", "reason=time out"]).wanted
        {'delivery': ('text_owner',), 'reason': ('time out',)}
        """
        wanted: dict[str, tuple[str, ...]] = {}
        for text in texts:
            field, equals, value = text.partition("=")
            if not equals or field not in FIELDS:
                raise SettingsError(
                    f"{text!r} is not a valid filter",
                    hint=f"use FIELD=VALUE, where FIELD is one of {', '.join(FIELDS)}",
                )
            if field in ("partition", "offset") and not value.isdecimal():
                raise SettingsError(
                    f"{value!r} is not a valid {field}", hint=f"use a number, such as {field}=0"
                )
            wanted[field] = (*wanted.get(field, ()), value)
        return cls(wanted)

    def fits(self, letter: Letter) -> bool:
        """Whether the filter selects the letter."""
        return all(
            any(_fits(letter, field, value) for value in values) for field, values in self.wanted.items()
        )


class DeadLetterTopic:
    """The dead letters of one topic, up to its present end, that were neither replayed nor discarded."""

    def __init__(self, connection: Connection, name: str) -> None:
        """`name` is that of the topic or of its dead-letter topic."""
        self.source = name.removesuffix(SUFFIX)
        self.name = f"{self.source}{SUFFIX}"
        self._connection = connection
        with Admin(connection) as admin:
            if self.name not in admin.describe([self.name]):
                raise missing(self.name)
            # Up to the first open transaction: records behind it may yet be aborted.
            stable = admin.stable_offsets([self.name])
        self._ends = {partition: offset for (_, partition), offset in stable.items()}
        self._settled = self._read_settled()

    def open_letters(self, only: Filter | None = None) -> Iterator[Letter]:
        """The open letters that the filter selects, in order within each partition."""
        for record in read(self._connection, self.name, end=self._ends):
            if record.header(SETTLES) is None and record.offset not in self._settled.get(
                record.partition, ()
            ):
                letter = Letter.of(record)
                if only is None or only.fits(letter):
                    yield letter

    def _read_settled(self) -> dict[int, set[int]]:
        settled: dict[int, set[int]] = {}
        for record in read(self._connection, self.name, end=self._ends):
            for partition, offset in _positions(record.header(SETTLES)):
                settled.setdefault(partition, set()).add(offset)
        return settled


@dataclass(slots=True)
class Summary:
    """The number of letters with one cause."""

    failed_in: str
    exception: str
    reason: str
    """Without the parts that differ from letter to letter: see `normalized`."""
    example: str = ""
    """The full reason of the first of them."""
    count: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None

    def add(self, letter: Letter) -> None:
        """Count a letter."""
        self.count += 1
        if letter.written is not None:
            self.oldest = min(self.oldest or letter.written, letter.written)
            self.newest = max(self.newest or letter.written, letter.written)


_MOST_CAUSES = 50
_VARYING = re.compile(
    r"\b(?P<of>(?:schema id|offset|partition|position|index|line|row) )\d+\b"
    r"|\b\d+(?= bytes?\b)"
    r"|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
    r"|\b0x[0-9a-f]+\b"
    r"|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|(?<![\w.-])\d{6,}\b",
    re.IGNORECASE,
)


def normalized(reason: str) -> str:
    """A reason without the offsets, ids and sizes that differ from letter to letter.

    >>> normalized("schema id 50004 was not registered for readings-value")
    'schema id … was not registered for readings-value'
    >>> normalized("HTTP 404 (topic t2, partition 1, offset 77)")
    'HTTP 404 (topic t2, partition …, offset …)'
    """
    return _VARYING.sub(lambda found: f"{found['of'] or ''}…", reason)


def summarize(letters: Iterable[Letter]) -> list[Summary]:
    """Count the letters by cause, the most frequent first.

    Reasons that contain values can be arbitrarily many: beyond fifty causes, letters count by exception only.
    """
    causes: dict[tuple[str, str, str], Summary] = {}
    for letter in letters:
        cause = (letter.failed_in, letter.exception, normalized(letter.reason))
        if cause not in causes and len(causes) >= _MOST_CAUSES:
            cause = (letter.failed_in, letter.exception, "other reasons")
        causes.setdefault(cause, Summary(*cause, letter.reason)).add(letter)
    return sorted(causes.values(), key=lambda cause: -cause.count)


def preview(data: bytes | None, most: int = 80) -> str:
    """Bytes as one line of text that is safe for a terminal.

    >>> preview(b"load 2.4 kW"), preview(bytes([0, 27]) + b"[2J"), preview(None), preview(b"abcdef", 3)
    ('load 2.4 kW', '\\\\x00\\\\x1b[2J', '(null)', 'abc…')
    """
    if data is None:
        return "(null)"
    cut = data[: most * 4]
    try:
        # The incremental decoder ignores a character that the cut splits.
        text = codecs.getincrementaldecoder("utf-8")().decode(cut, final=cut == data)
    except UnicodeDecodeError:
        text = "\0"
    if not text.isprintable():
        text = repr(cut)[2:-1]
    return text if len(text) <= most and len(cut) == len(data) else f"{text[:most]}…"


def _positions(header: bytes | None) -> list[list[int]]:
    try:
        return cast("list[list[int]]", json.loads(header or b"[]"))
    except ValueError:
        return []  # not written by gearshift


def _fits(letter: Letter, field: str, value: str) -> bool:
    named: Sequence[str | None]
    match field:
        case "delivery":
            named = (letter.delivery, letter.group_id)
        case "pipeline":
            named = (letter.pipeline, letter.failed_in if letter.group_id is None else None)
        case "exception":
            named = (letter.exception, letter.exception.rpartition(".")[2])
        case "partition":
            return letter.origin is not None and letter.origin[0] == int(value)
        case "offset":
            return letter.origin is not None and letter.origin[1] == int(value)
        case _:
            return value in letter.reason
    return value in named
