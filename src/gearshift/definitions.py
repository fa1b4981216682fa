"""What a user declares: frozen values without behaviour."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from gearshift.alert import Level
from gearshift.boards import Board
from gearshift.calendars import Calendar, Interval
from gearshift.cron import Cron
from gearshift.freshness import Freshness, Gear
from gearshift.record import Destination
from gearshift.timetable import Timetable

Format = Literal["avro", "json"]
Commit = Literal["sync", "async"]
Start = Literal["earliest", "latest", "error"]
OnSchemaChange = Literal["append_new_columns", "fail"]
Envelope = Literal["debezium"]
DatabaseKind = Literal["postgres", "mariadb"]
Catalog = Literal["hive"]
FileFormat = Literal["csv", "jsonl", "parquet"]
AsOf = Literal["latest"]
OnInvalid = Literal["dead-letter", "stop"]

DELETED = "_deleted"
"""With `as_of="latest"`, the column that marks a row as deleted."""
POSITION = "_position"
"""With `as_of="latest"`, the column with the position of a row's latest change in the database's log."""


TABLE_SUFFIX = ".table"
"""Precedes `.dlq` in the topic of a table's dead letters, so that it never clashes with that of a topic."""


@dataclass(frozen=True, slots=True)
class Location:
    """The file and line of a declaration."""

    file: str
    line: int

    @classmethod
    def at(cls, file: str, line: int) -> Location:
        """The location, with a path relative to the current folder where possible."""
        try:
            return cls(str(Path(file).relative_to(Path.cwd())), line)
        except ValueError:
            return cls(file, line)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A Kafka topic and the type of its values."""

    name: str
    value: type[Any]
    key: str | None = None
    partitions: int = 1
    replicas: int | None = None
    format: Format = "avro"
    compatibility: str = "BACKWARD"
    max_lag: int | None = None
    """The lag of the slowest consumer group, in records, above which producers are slowed down."""
    envelope: Envelope | None = None
    """The envelope around each value: Debezium's, with before, after and op, on the topics of a change capture."""
    before: bool = False
    """Whether changes carry the whole row before the change (REPLICA IDENTITY FULL) and not only its key."""
    external: bool = False
    """Whether it has another owner: the topic and its schemas are then checked but never created or changed."""
    as_of: AsOf | None = None
    """What a pipeline reads from changes: None for the changes, "latest" for the current rows."""
    defined_at: Location

    @property
    def subject(self) -> str:
        """The registry subject of the value schema."""
        return f"{self.name}-value"

    @property
    def is_registered(self) -> bool:
        """Whether values start with a schema id; JSON written by a connector does not."""
        return self.envelope is None or self.format == "avro"

    @property
    def dead_letters(self) -> str:
        """The topic of this topic's dead letters."""
        return f"{self.name}.dlq"

    @property
    def replays(self) -> str:
        """The topic that returns replayed dead letters to the delivery that failed on them, and to no other reader."""
        return f"{self.name}.replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A warehouse table. With a key, a row replaces the one with the same key."""

    name: str
    partition_by: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    sequence_by: tuple[str, ...] = ()
    """The columns that order the versions of a row: the highest wins, whatever the order of arrival."""
    deleted: str | None = None
    """A boolean column that is not stored: true removes the row with this key."""
    on_schema_change: OnSchemaChange = "append_new_columns"
    """What happens to new columns and wider types: the table takes them, or the batch fails."""
    publish: Catalog | None = None
    """The catalog that shows every committed batch."""
    defined_at: Location

    @property
    def dead_letters(self) -> str:
        """The topic of the rows that this table cannot hold."""
        return f"{self.name}{TABLE_SUFFIX}.dlq"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Makes each run of a pipeline compute one interval of its calendar and replace that interval's result."""

    event_time: Mapping[str, str]
    """The event-time column of each source that is cut to the interval, by the transform's parameter names."""
    grace: timedelta = timedelta(0)
    """The delay between the end of an interval and its run."""
    allowed_lateness: timedelta | None = None
    """How long after its end late rows make an interval run again; None for no limit."""
    since: datetime | None = None
    """Where the calendar begins: earlier intervals run on request only. None for the oldest row."""
    is_parameter: bool = False
    """Whether the transform has the parameter `interval`."""

    def has(self, interval: Interval) -> bool:
        """Whether an interval belongs to the calendar."""
        return self.since is None or interval.start >= self.since


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A PySpark transform from topics or tables to a topic or table, and its freshness."""

    name: str
    transform: Callable[..., Any]
    sources: Mapping[str, Topic | Table]
    target: Topic | Table
    freshness: Freshness
    gear: Gear
    auto: bool = False
    """Whether the gearbox chooses the gear; `gear` is then the one to begin with."""
    timetable: Timetable | None = None
    """The gears of the week; `gear` is then the first of them."""
    cron: Cron | None = None
    intervals: Intervals | None = None
    refresh: timedelta = timedelta(minutes=1)
    """How often a stream that joins tables picks up their changes."""
    on_invalid: OnInvalid = "dead-letter"
    """What happens to a result row that the target cannot take: a dead letter, or the query stops."""
    parallelism: int | None = None
    """The shuffle partitions that a new checkpoint begins with; None for Spark's setting."""
    defined_at: Location

    @property
    def topics(self) -> dict[str, Topic]:
        """The sources that are topics, by the transform's parameter names."""
        return {name: source for name, source in self.sources.items() if isinstance(source, Topic)}

    @property
    def tables(self) -> dict[str, Table]:
        """The sources that are tables, by the transform's parameter names."""
        return {name: source for name, source in self.sources.items() if isinstance(source, Table)}

    @property
    def trigger(self) -> timedelta:
        """How often a near-real-time run starts a micro-batch: every second to every five minutes.

        The limits give a pipeline that was declared for another gear a sensible pace in this one.
        """
        return min(max(self.freshness.trigger, timedelta(seconds=1)), timedelta(minutes=5))

    @property
    def chosen_by(self) -> str | None:
        """What chooses the gear while the pipeline runs: "auto" or "timetable"; None if it is fixed."""
        return "auto" if self.auto else "timetable" if self.timetable is not None else None

    @property
    def promise(self) -> str:
        """The freshness or the cron expression, as declared."""
        return str(self.cron or self.freshness)

    @property
    def calendar(self) -> Calendar:
        """When batch runs start; every hour if the declared freshness is shorter than batch can keep."""
        if self.cron is not None:
            return self.cron
        return self.freshness if self.freshness.gear is Gear.BATCH else Freshness(1, "hour")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A simulated source: a generator whose values go to a topic at a rate."""

    name: str
    generate: Callable[..., Iterator[Any]]
    topic: Topic
    rate: float
    """Records per second, averaged over the day."""
    seed: int | None = None
    """Makes the sequence reproducible and resumable."""
    day: tuple[float, ...] = ()
    """The weight of each part of the day; empty for a steady rate."""
    out_of_order: float = 0.0
    """The share of records that are delayed, by `max_delay` at most."""
    max_delay: timedelta = timedelta(minutes=1)
    duplicates: float = 0.0
    """The share of records that are sent twice."""
    time_factor: float = 1.0
    """Simulated seconds per second."""
    timezone: str = "UTC"
    marks: str = ""
    """The topic that stores the position in a seeded sequence; also the transactional id."""
    defined_at: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """A folder whose files go to a topic, row by row, each file once."""

    name: str
    folder: Path
    topic: Topic
    format: FileFormat
    quiet: timedelta
    """How long a file must be unchanged before it counts as complete."""
    marks: str
    """The topic that stores which files were taken; also the transactional id."""
    defined_at: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSource:
    """A port that takes records for topics by POST /topics/NAME."""

    name: str
    topics: Mapping[str, Topic]
    host: str
    port: int
    token_variable: str | None
    """The environment variable that holds the bearer token of requests."""
    certificate: Path | None = None
    """The PEM file with the TLS certificate; None for plain HTTP."""
    key: Path | None = None
    """The PEM file with the certificate's key, unless both are in one file."""
    marks: str
    """The topic that stores which requests were written; also the transactional id."""
    defined_at: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCapture:
    """A database whose committed changes go to topics, one per table, through Kafka Connect and Debezium."""

    name: str
    connector: str
    """The connector's name in Kafka Connect."""
    topics: Mapping[str, Topic]
    """The topics by qualified table name, such as public.orders (PostgreSQL) or shop.orders (MariaDB)."""
    database: DatabaseKind = "postgres"
    password: str | None = None
    """A reference that your own Kafka Connect resolves, such as ${env:ORDERS_DB_PASSWORD}; never the password."""
    defined_at: Location

    @property
    def slot(self) -> str:
        """The name of its PostgreSQL replication slot and publication."""
        return re.sub(r"[^a-z0-9_]", "_", f"gearshift_{self.connector}".lower())[:63]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How long, and with which exponential backoff, a delivery retries after a retriable error."""

    timeout: timedelta = timedelta(minutes=5)
    backoff: timedelta = timedelta(milliseconds=100)
    max_backoff: timedelta = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A consumer group that passes a topic's records to a handler, and the handler's results to a target."""

    name: str
    handler: Callable[..., Any]
    topic: Topic
    group_id: str
    target: Topic | Destination | None = None
    commit: Commit = "sync"
    start: Start = "earliest"
    batch_size: int | None = None
    """The most records that a handler of lists gets in one call; None for a handler of single records."""
    once_by: tuple[str, ...] = ()
    """The fields that identify a record: one that was delivered before is dropped."""
    parallelism: int = 1
    consumers: tuple[int, int] = (1, 1)
    """The least and the most consumer processes; lag decides between them."""
    retry: Retry = field(default_factory=Retry)
    is_async: bool = False
    defined_at: Location

    @property
    def once_topic(self) -> str:
        """The topic that stores which records were delivered, for `once_by`."""
        return f"{self.topic.name}.{self.group_id}.once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A function that turns each alert of the running app into a message, and where it is sent."""

    name: str
    handler: Callable[..., Any]
    target: Destination
    levels: tuple[Level, ...]
    defined_at: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Everything that one app declares, by name."""

    app: str
    timezone: str
    topics: Mapping[str, Topic] = field(default_factory=dict[str, Topic])
    tables: Mapping[str, Table] = field(default_factory=dict[str, Table])
    pipelines: Mapping[str, Pipeline] = field(default_factory=dict[str, Pipeline])
    sources: Mapping[str, Source] = field(default_factory=dict[str, Source])
    file_sources: Mapping[str, FileSource] = field(default_factory=dict[str, FileSource])
    http_sources: Mapping[str, HttpSource] = field(default_factory=dict[str, HttpSource])
    deliveries: Mapping[str, Delivery] = field(default_factory=dict[str, Delivery])
    captures: Mapping[str, ChangeCapture] = field(default_factory=dict[str, ChangeCapture])
    boards: Mapping[str, Board] = field(default_factory=dict[str, Board])
    notifications: Mapping[str, Notification] = field(default_factory=dict[str, Notification])
