"""Dead letters as a person looks at them: those that are still open, who failed on them, and why."""

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
from gearshift.topics.dead_letters import CONNECT, OURS
from gearshift.topics.reader import ConsumedRecord, read

if TYPE_CHECKING:
    from gearshift.connection import Connection

SUFFIX = ".dlq"
SETTLES = "gearshift.settles"
"""Header of a record without value: the dead letters, as JSON `[[partition, offset], …]`, that are open no more."""
SETTLED_AS = "gearshift.settled-as"
FIELDS = ("delivery", "pipeline", "exception", "reason", "partition", "offset")

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter, with the place where it lies and the one of the record that failed."""

    place: Place
    """Its partition and offset on the dead-letter topic."""
    origin: Place | None
    """The record's partition and offset on the topic itself; None if the letter does not say."""
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
        """The letter that a record on a dead-letter topic is."""

        def said(name: str) -> str | None:
            value = record.header(name)
            return None if value is None else value.decode("utf-8", "replace")

        partition, offset = said(f"{CONNECT}partition"), said(f"{CONNECT}offset")
        known = partition is not None and offset is not None and partition.isdecimal() and offset.isdecimal()
        return cls(
            place=(record.partition, record.offset),
            origin=(int(partition or 0), int(offset or 0)) if known else None,
            failed_in=said(f"{CONNECT}connector.name") or "?",
            delivery=said(f"{OURS}delivery"),
            group_id=said(f"{OURS}group_id"),
            stage=said(f"{CONNECT}stage") or "?",
            exception=said(f"{CONNECT}exception.class.name") or "?",
            reason=said(f"{CONNECT}exception.message") or said(f"{OURS}reason") or "?",
            key=record.key,
            value=record.value,
            headers=record.headers,
            written=record.timestamp,
        )

    @property
    def row(self) -> str | None:
        """The file and line of a row that never was a record; None for a record."""
        found = {name: value.decode("utf-8", "replace") for name, value in self.headers if value is not None}
        file, line = found.get(f"{OURS}file"), found.get(f"{OURS}line")
        return None if file is None else f"{file}:{line}"

    @property
    def pipeline(self) -> str | None:
        """The name of the pipeline that failed, if it was one."""
        return None if self.group_id is not None else self.failed_in.rpartition(".")[2]

    @property
    def idempotency_key(self) -> bytes | None:
        """The key with which its delivery tried it, if one did."""
        return next((value for name, value in self.headers if name == f"{OURS}idempotency_key"), None)

    @property
    def size(self) -> int:
        """The bytes of the key and the value."""
        return len(self.key or b"") + len(self.value or b"")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which letters are meant: those that fit one value of every field that is named."""

    wanted: Mapping[str, tuple[str, ...]]

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Filter:
        """From `field=value` texts.

        >>> Filter.parse(["delivery=text_owner", "reason=time out"]).wanted
        {'delivery': ('text_owner',), 'reason': ('time out',)}
        """
        wanted: dict[str, tuple[str, ...]] = {}
        for text in texts:
            field, equals, value = text.partition("=")
            if not equals or field not in FIELDS:
                raise SettingsError(
                    f"{text!r} is no filter", hint=f"say FIELD=VALUE with a field of {', '.join(FIELDS)}"
                )
            if field in ("partition", "offset") and not value.isdecimal():
                raise SettingsError(f"{value!r} is no {field}", hint=f"say {field}=0 or another number")
            wanted[field] = (*wanted.get(field, ()), value)
        return cls(wanted)

    def fits(self, letter: Letter) -> bool:
        """Whether the letter is meant."""
        return all(
            any(_fits(letter, field, value) for value in values) for field, values in self.wanted.items()
        )


class DeadLetterTopic:
    """The letters of one topic that are neither replayed nor discarded, up to where it ends now."""

    def __init__(self, connection: Connection, name: str) -> None:
        """`name` is the topic's own or that of its dead letters."""
        self.source = name.removesuffix(SUFFIX)
        self.name = f"{self.source}{SUFFIX}"
        self._connection = connection
        admin = Admin(connection)
        if self.name not in admin.describe([self.name]):
            raise missing(self.name)
        # Up to the first open transaction: what lies behind it does not count yet, and may never.
        self._ends = {place[1]: offset for place, offset in admin.stable_offsets([self.name]).items()}
        self._settled = self._read_settled()

    def open_letters(self, only: Filter | None = None) -> Iterator[Letter]:
        """The open letters that fit, in order within each partition."""
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
            for partition, offset in _places(record.header(SETTLES)):
                settled.setdefault(partition, set()).add(offset)
        return settled


@dataclass(slots=True)
class Summary:
    """Letters of one cause, counted."""

    failed_in: str
    exception: str
    reason: str
    """Without what differs from letter to letter: see `normalized`."""
    example: str = ""
    """The reason of the first of them, as it is."""
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
    """The letters by who failed and why, whatever their offsets; the most frequent cause first.

    Reasons that name values have no end; beyond fifty causes they are counted by exception alone.
    """
    causes: dict[tuple[str, str, str], Summary] = {}
    for letter in letters:
        cause = (letter.failed_in, letter.exception, normalized(letter.reason))
        if cause not in causes and len(causes) >= _MOST_CAUSES:
            cause = (letter.failed_in, letter.exception, "other reasons")
        causes.setdefault(cause, Summary(*cause, letter.reason)).add(letter)
    return sorted(causes.values(), key=lambda cause: -cause.count)


def summarize_all(connection: Connection) -> dict[str, list[Summary]]:
    """The open letters of every dead-letter topic, by its name."""
    with Admin(connection) as admin:
        names = [name for name in admin.names() if name.endswith(SUFFIX)]
        begins, ends = admin.begin_offsets(names), admin.end_offsets(names)
    used = {topic for (topic, partition), end in ends.items() if end > begins[topic, partition]}
    return {
        name: summarize(DeadLetterTopic(connection, name).open_letters()) if name in used else []
        for name in names
    }


def preview(data: bytes | None, most: int = 80) -> str:
    """Bytes as a line of text that does a terminal no harm.

    >>> preview(b"load 2.4 kW"), preview(bytes([0, 27]) + b"[2J"), preview(None), preview(b"abcdef", 3)
    ('load 2.4 kW', '\\\\x00\\\\x1b[2J', '(null)', 'abc…')
    """
    if data is None:
        return "(null)"
    cut = data[: most * 4]
    try:
        # A character that the cut goes through is left out, and no reason to call it all binary.
        text = codecs.getincrementaldecoder("utf-8")().decode(cut, final=cut == data)
    except UnicodeDecodeError:
        text = "\0"
    if not text.isprintable():
        text = repr(cut)[2:-1]
    return text if len(text) <= most and len(cut) == len(data) else f"{text[:most]}…"


def _places(header: bytes | None) -> list[list[int]]:
    try:
        return cast("list[list[int]]", json.loads(header or b"[]"))
    except ValueError:
        return []  # not of our writing


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
