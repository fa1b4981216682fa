"""What a user declares: frozen values that say what there is, and nothing about how it runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from gearshift.calendars import Calendar, Interval
from gearshift.cron import Cron
from gearshift.freshness import Freshness, Gear
from gearshift.record import Destination

Format = Literal["avro", "json"]
Commit = Literal["sync", "async"]
Start = Literal["earliest", "latest", "error"]
Evolution = Literal["evolve", "strict"]
Envelope = Literal["debezium"]
Catalog = Literal["hive"]
FileFormat = Literal["csv", "jsonl", "parquet"]
AsOf = Literal["latest"]

DELETED = "_deleted"
"""The column that says, of a row as it is now, that it is gone."""
POSITION = "_position"
"""The column that says where in the database's log a row's latest change is."""


@dataclass(frozen=True, slots=True)
class Location:
    """The place in the user's file where something was declared."""

    file: str
    line: int

    @classmethod
    def at(cls, file: str, line: int) -> Location:
        """The place, with the path as a person in this folder would type it."""
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
    """How many records the slowest consumer group may be behind before producers are slowed down."""
    envelope: Envelope | None = None
    """What values are wrapped in: Debezium's before, after and op on the topics of a change capture."""
    before: bool = False
    """Whether PostgreSQL sends whole rows as they were before (REPLICA IDENTITY FULL), not only their keys."""
    as_of: AsOf | None = None
    """How a pipeline sees changes: as they are, or with "latest" as the rows that they lead to."""
    defined_at: Location

    @property
    def subject(self) -> str:
        """The registry's name for the schema of this topic's values."""
        return f"{self.name}-value"

    @property
    def is_registered(self) -> bool:
        """Whether its values begin with the id of a registered schema; JSON from a connector does not."""
        return self.envelope is None or self.format == "avro"

    @property
    def dead_letters(self) -> str:
        """The topic that takes the records of this one that cannot be processed."""
        return f"{self.name}.dlq"

    @property
    def replays(self) -> str:
        """The topic that brings dead letters back to the delivery that failed on them, and to no other reader."""
        return f"{self.name}.replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A warehouse table; with a key, rows replace those of the same key."""

    name: str
    partition_by: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    """Of two rows with one key the later by these columns stays, in whatever order they come."""
    deleted: str | None = None
    """A boolean column that is not stored: where it is true, the row with this key goes away."""
    schema: Evolution = "evolve"
    publish: Catalog | None = None
    """Where every batch is shown beside the warehouse: in the metastore of Hive."""
    defined_at: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """That each run of a pipeline answers for one interval of its calendar, and replaces what that interval had."""

    by: Mapping[str, str]
    """The column of event time in each source that is cut to the interval, by the transform's parameter names."""
    grace: timedelta = timedelta(0)
    """How long after its end an interval is run."""
    late: timedelta | None = None
    """How long after its end rows that come still run it again; for ever if None."""
    since: datetime | None = None
    """Where the calendar begins: what begins earlier is run by hand only; None for the oldest row."""
    is_parameter: bool = False
    """Whether the transform takes the interval as its parameter `interval`."""

    def has(self, interval: Interval) -> bool:
        """Whether an interval is of the calendar, as far as it goes back."""
        return self.since is None or interval.start >= self.since


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A PySpark transform from topics or tables to a topic or table, and the promise it keeps."""

    name: str
    transform: Callable[..., Any]
    sources: Mapping[str, Topic | Table]
    target: Topic | Table
    freshness: Freshness
    gear: Gear
    cron: Cron | None = None
    intervals: Intervals | None = None
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
        """How often a near-real-time run of this pipeline starts a micro-batch.

        A pipeline declared for another gear keeps a pace that makes sense in this one:
        a second at the shortest, five minutes at the longest.
        """
        return min(max(self.freshness.trigger, timedelta(seconds=1)), timedelta(minutes=5))

    @property
    def promise(self) -> str:
        """What it promises, as it was declared: how fresh, or at which times of cron."""
        return str(self.cron or self.freshness)

    @property
    def calendar(self) -> Calendar:
        """When a batch run of this pipeline starts; hourly if it promises more than batch can keep."""
        if self.cron is not None:
            return self.cron
        return self.freshness if self.freshness.gear is Gear.BATCH else Freshness(1, "hour")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A generator of values that go to a topic at a rate."""

    name: str
    generate: Callable[..., Iterator[Any]]
    topic: Topic
    rate: float
    """Records a second, on average over the day."""
    seed: int | None = None
    """With one, it is the same sequence of records whenever it runs, and goes on where it was."""
    day: tuple[float, ...] = ()
    """The weight of each part of the day; none for a steady rate."""
    out_of_order: float = 0.0
    late: timedelta = timedelta(minutes=1)
    duplicates: float = 0.0
    time_factor: float = 1.0
    """How many seconds of the simulated day a second lasts."""
    timezone: str = "UTC"
    marks: str = ""
    """The topic that keeps how far the sequence of a seed has come, and the transactional id."""
    defined_at: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """A folder whose files go to a topic, row by row, each file once."""

    name: str
    folder: Path
    topic: Topic
    format: FileFormat
    quiet: timedelta
    """How long a file must not have changed before it counts as whole."""
    marks: str
    """The topic that keeps which files were taken, and the transactional id."""
    defined_at: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSource:
    """A port that takes records for topics by POST /topics/NAME."""

    name: str
    topics: Mapping[str, Topic]
    host: str
    port: int
    token_variable: str | None
    """The environment variable with the token that every request must carry."""
    certificate: Path | None = None
    """The PEM file with the certificate to serve TLS with; without one it is plain HTTP."""
    key: Path | None = None
    """The PEM file with the certificate's key, unless it is in the same file."""
    marks: str
    """The topic that keeps which requests were taken, and the transactional id."""
    defined_at: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCapture:
    """A database whose committed changes go to topics, one a table, through Kafka Connect and Debezium."""

    name: str
    connector: str
    """Its name in Connect."""
    topics: Mapping[str, Topic]
    """By the table's name with its schema, such as public.orders."""
    password: str | None = None
    """Where the user's own Connect finds the password, such as ${env:ORDERS_DB_PASSWORD}; never the password."""
    defined_at: Location

    @property
    def slot(self) -> str:
        """The name of its replication slot and its publication, as PostgreSQL allows names."""
        return re.sub(r"[^a-z0-9_]", "_", f"gearshift_{self.connector}".lower())[:63]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How long and how often a record is tried again after a failure that may pass."""

    within: timedelta = timedelta(minutes=5)
    first: timedelta = timedelta(milliseconds=100)
    longest: timedelta = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A consumer group that takes records off a topic to a handler, and what it returns to a target."""

    name: str
    handler: Callable[..., Any]
    topic: Topic
    group_id: str
    target: Topic | Destination | None = None
    commit: Commit = "sync"
    start: Start = "earliest"
    batch: int | None = None
    """How many records a handler that takes a list gets at most; None for a handler of single records."""
    once_by: tuple[str, ...] = ()
    parallelism: int = 1
    scale: tuple[int, int] = (1, 1)
    retry: Retry = field(default_factory=Retry)
    is_async: bool = False
    defined_at: Location

    @property
    def once_topic(self) -> str:
        """The topic that keeps what has been delivered, partition by partition, for `once_by`."""
        return f"{self.topic.name}.{self.group_id}.once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Everything one app declares, by name."""

    app: str
    timezone: str
    topics: Mapping[str, Topic] = field(default_factory=dict[str, Topic])
    tables: Mapping[str, Table] = field(default_factory=dict[str, Table])
    pipelines: Mapping[str, Pipeline] = field(default_factory=dict[str, Pipeline])
    sources: Mapping[str, Source] = field(default_factory=dict[str, Source])
    folders: Mapping[str, FileSource] = field(default_factory=dict[str, FileSource])
    ports: Mapping[str, HttpSource] = field(default_factory=dict[str, HttpSource])
    deliveries: Mapping[str, Delivery] = field(default_factory=dict[str, Delivery])
    captures: Mapping[str, ChangeCapture] = field(default_factory=dict[str, ChangeCapture])
