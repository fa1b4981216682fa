"""App: the ordinary object a user declares topics, tables, pipelines, sources and deliveries on."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gearshift.cron import Cron
from gearshift.definitions import (
    AsOf,
    Catalog,
    ChangeCapture,
    Commit,
    Delivery,
    Envelope,
    Evolution,
    FileFormat,
    FileSource,
    Format,
    Graph,
    HttpSource,
    Location,
    Pipeline,
    Retry,
    Source,
    Start,
    Table,
    Topic,
)
from gearshift.errors import DefinitionError
from gearshift.freshness import Freshness, Gear
from gearshift.record import Destination
from gearshift.rules.declared import caller, duration, location_of, names, require_name, wrong
from gearshift.rules.deliveries import check_copy, check_handler, check_numbers, check_once, retry_of
from gearshift.rules.intervals import INTERVAL, check_writers, declare_intervals
from gearshift.rules.pipelines import as_of_latest, match_sources
from gearshift.rules.sources import check_generator, require_writable, shape_of_day
from gearshift.rules.tables import check_table

Transform = TypeVar("Transform", bound=Callable[..., Any])
Handler = TypeVar("Handler", bound=Callable[..., Any])
Generator = TypeVar("Generator", bound=Callable[..., Iterator[Any]])

_COMPATIBILITY = tuple(
    f"{way}{reach}" for way in ("BACKWARD", "FORWARD", "FULL") for reach in ("", "_TRANSITIVE")
)

_USUAL = {
    Gear.REAL_TIME: Freshness(1, "second"),
    Gear.NEAR_REAL_TIME: Freshness(1, "minute"),
    Gear.BATCH: Freshness(1, "day"),
}


class App:
    """One app: what it declares, in one file, with no global registry.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Reading:
    ...     meter_id: str
    ...     load_kw: float
    >>> app = App("smart-meter")
    >>> readings = app.topic("meter-readings", value=Reading, key="meter_id", partitions=3)
    >>> history = app.table("readings_history")
    >>> @app.pipeline(source=readings, to=history, freshness="1 minute")
    ... def keep_history(readings):
    ...     return readings
    >>> app.graph.pipelines["keep_history"].gear
    <Gear.NEAR_REAL_TIME: 'near-real-time'>
    """

    def __init__(self, name: str, *, timezone: str = "UTC") -> None:
        where = caller()
        require_name(name, "app", where)
        try:
            ZoneInfo(timezone)
        except (ZoneInfoNotFoundError, ValueError):
            raise wrong(
                f"unknown time zone {timezone!r}", "use a name such as Europe/Berlin", where
            ) from None
        self.name = name
        self.timezone = timezone
        self._topics: dict[str, Topic] = {}
        self._tables: dict[str, Table] = {}
        self._pipelines: dict[str, Pipeline] = {}
        self._sources: dict[str, Source] = {}
        self._folders: dict[str, FileSource] = {}
        self._ports: dict[str, HttpSource] = {}
        self._deliveries: dict[str, Delivery] = {}
        self._captures: dict[str, ChangeCapture] = {}

    @property
    def graph(self) -> Graph:
        """What has been declared so far, as a frozen value."""
        return Graph(
            app=self.name,
            timezone=self.timezone,
            topics=dict(self._topics),
            tables=dict(self._tables),
            pipelines=dict(self._pipelines),
            sources=dict(self._sources),
            folders=dict(self._folders),
            ports=dict(self._ports),
            deliveries=dict(self._deliveries),
            captures=dict(self._captures),
        )

    def topic(
        self,
        name: str,
        *,
        value: type[Any],
        key: str | None = None,
        partitions: int = 1,
        replicas: int | None = None,
        format: Format = "avro",  # noqa: A002  (the word users know)
        compatibility: str = "BACKWARD",
        max_lag: int | None = None,
        envelope: Envelope | None = None,
    ) -> Topic:
        """Declare a topic whose values are of a dataclass and whose key is one of its fields.

        With envelope="debezium" it is one that a connector of your own fills with changes of such rows.
        """
        where = caller()
        require_name(name, "topic", where, limit=249 - len(".dlq"))
        if name in self._topics:
            raise wrong(
                f"topic {name} is declared twice", f"the first is at {self._topics[name].defined_at}", where
            )
        if not (is_dataclass(value) and isinstance(value, type)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong(f"the value of topic {name} is not a dataclass", "declare it with @dataclass", where)
        known = [field.name for field in fields(value)]
        if key is not None and key not in known:
            raise wrong(
                f"topic {name} has no field {key!r} to be its key",
                f"{value.__name__} has {', '.join(known)}",
                where,
            )
        if partitions < 1:
            raise wrong(f"topic {name} needs at least one partition", "partitions=1", where)
        if replicas is not None and replicas < 1:
            raise wrong(f"topic {name} needs at least one replica", "replicas=1", where)
        if format not in ("avro", "json"):
            raise wrong(f"unknown format {format!r} of topic {name}", "use 'avro' or 'json'", where)
        if compatibility not in (*_COMPATIBILITY, "NONE"):
            raise wrong(
                f"unknown compatibility {compatibility!r}", f"use {', '.join(_COMPATIBILITY)} or NONE", where
            )
        if envelope not in (None, "debezium"):
            raise wrong(f"unknown envelope {envelope!r} of topic {name}", "use 'debezium'", where)
        if max_lag is not None and max_lag < 1:
            raise wrong(f"topic {name} has max_lag={max_lag}", "use a number of records above 0", where)
        topic = Topic(
            name=name,
            value=value,
            key=key,
            partitions=partitions,
            replicas=replicas,
            format=format,
            compatibility=compatibility,
            max_lag=max_lag,
            envelope=envelope,
            defined_at=where,
        )
        self._topics[name] = topic
        return topic

    def table(
        self,
        name: str,
        *,
        partition_by: str | tuple[str, ...] = (),
        key: str | tuple[str, ...] = (),
        order_by: str | tuple[str, ...] = (),
        deleted: str | None = None,
        schema: Evolution = "evolve",
        publish: Catalog | None = None,
    ) -> Table:
        """Declare a warehouse table. Batches are appended, or with a `key` upserted: rows replace those of their key.

        The later row by `order_by` stays, whichever comes first; a row whose column `deleted` is true removes its
        key. New columns and wider types are taken over, unless `schema` is "strict". With `publish="hive"` it is a
        table of Hive as well, which shows each batch when it is committed.
        """
        where = caller()
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", name):
            raise wrong(f"{name!r} is no table name", "use letters, digits and _, as SQL does", where)
        if name in self._tables:
            raise wrong(
                f"table {name} is declared twice", f"the first is at {self._tables[name].defined_at}", where
            )
        table = Table(
            name=name,
            partition_by=names(partition_by),
            key=names(key),
            order_by=names(order_by),
            deleted=deleted,
            schema=schema,
            publish=publish,
            defined_at=where,
        )
        check_table(table)
        self._tables[name] = table
        return table

    def pipeline(
        self,
        *,
        source: Topic | Table | Mapping[str, Topic | Table],
        to: Topic | Table,
        freshness: str | None = None,
        gear: str | None = None,
        cron: str | None = None,
        by: str | Mapping[str, str] | None = None,
        grace: str | None = None,
        late: str | None = None,
        since: str | date | None = None,
        as_of: AsOf | None = None,
    ) -> Callable[[Transform], Transform]:
        """Declare a pipeline: a function from DataFrames, named as its parameters, to a DataFrame.

        With `by`, a column of event time, each batch run answers for one interval of the calendar: it gets the
        rows of that interval, and its result replaces what an earlier run of the interval wrote. It may take
        the `interval` as a parameter of that name. It runs `grace` after the interval's end, and again when rows
        come later, for as long after the end as `late` says. The calendar begins at the oldest row, or with the first
        interval that begins at `since` or later (a date or a time, of the app's zone if it names none).

        Of a captured table it sees the changes (`before`, `after`, `op`, `source_time`, `position`), or with
        `as_of="latest"` the rows as they are now, with `_deleted` and `_position`, for a table with a key.
        """

        called_at = caller()

        def declare(transform: Transform) -> Transform:
            where = location_of(transform, called_at)
            name = transform.__name__
            require_name(name, "pipeline", where)
            if name in self._pipelines:
                first = self._pipelines[name].defined_at
                raise wrong(f"pipeline {name} is declared twice", f"the first is at {first}", where)
            self._require_own_group(f"{self.name}.{name}", f"pipeline {name}", where)
            if freshness is not None and cron is not None:
                raise wrong(
                    f"pipeline {name} has two calendars: freshness={freshness!r} and cron={cron!r}",
                    "say one of them",
                    where,
                )
            if freshness is None and gear is None and cron is None:
                raise wrong(
                    f"pipeline {name} says neither freshness nor gear", "add freshness='1 minute'", where
                )
            try:
                chosen = Gear.named(gear) if gear is not None else None
                schedule = Cron.parse(cron) if cron is not None else None
                if schedule is not None:
                    chosen = chosen or Gear.BATCH
                promise = (
                    Freshness.parse(freshness)
                    if freshness is not None
                    else _USUAL[chosen or Gear.NEAR_REAL_TIME]
                )
            except DefinitionError as error:
                raise wrong(f"pipeline {name}: {error.what}", error.hint or "", where) from None
            if not isinstance(to, Topic | Table):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise wrong(
                    f"pipeline {name} writes to {to!r}", "to= takes what app.topic or app.table gave", where
                )
            if isinstance(to, Topic) and to.envelope is not None:
                raise wrong(
                    f"pipeline {name} writes to {to.name}, which a connector fills",
                    "use another topic",
                    where,
                )
            parameters = list(inspect.signature(transform).parameters)
            is_parameter = (
                by is not None
                and INTERVAL in parameters
                and not (isinstance(source, Mapping) and INTERVAL in source)
            )
            if is_parameter:
                parameters.remove(INTERVAL)
            sources = match_sources(name, parameters, source, where)
            pipeline = Pipeline(
                name=name,
                transform=transform,
                sources=as_of_latest(name, sources, to, as_of, where) if as_of is not None else sources,
                target=to,
                freshness=promise,
                gear=chosen or promise.gear,
                cron=schedule,
                defined_at=where,
            )
            declared = declare_intervals(
                pipeline, by, grace, late, since, zone=ZoneInfo(self.timezone), is_parameter=is_parameter
            )
            check_writers(declared, self._pipelines.values())
            self._pipelines[name] = declared
            return transform

        return declare

    def source(
        self,
        to: Topic,
        *,
        rate: float = 1.0,
        seed: int | None = None,
        day: Sequence[float] | Callable[[float], float] = (),
        out_of_order: float = 0.0,
        late: str = "1 minute",
        duplicates: float = 0.0,
        time_factor: float = 1.0,
    ) -> Callable[[Generator], Generator]:
        """Declare a simulated source: a generator of values that are sent at `rate` records a second.

        `day` is the shape of the day around that mean: 24 weights, or a function of the hour. With a `seed` the
        generator may take a `random.Random`, the sequence is the same whenever it runs and goes on where it was,
        and shares of it can come `out_of_order`, at most so `late`, and as `duplicates`.
        """

        called_at = caller()

        def declare(generate: Generator) -> Generator:
            where = location_of(generate, called_at)
            name = generate.__name__
            self._require_new_source(name, where)
            require_writable(to, f"source {name}", where)
            for what, number in (("rate", rate), ("time_factor", time_factor)):
                if not 0 < number < float("inf"):
                    raise wrong(f"source {name} has a {what} of {number}", "use a number above 0", where)
            for what, share in (("out_of_order", out_of_order), ("duplicates", duplicates)):
                if not 0 <= share <= 1:
                    raise wrong(f"source {name} has {what}={share}", "use a share such as 0.05", where)
                if share and seed is None:
                    raise wrong(f"source {name} has {what} but no seed", "say seed=7", where)
            check_generator(name, generate, seed, where)
            longest = duration(late, f"source {name}: late", where)
            self._sources[name] = Source(
                name=name,
                generate=generate,
                topic=to,
                rate=rate,
                seed=seed,
                day=shape_of_day(name, day, where),
                out_of_order=out_of_order,
                late=longest,
                duplicates=duplicates,
                time_factor=time_factor,
                timezone=self.timezone,
                marks=f"{self.name}.{name}.sequence",
                defined_at=where,
            )
            return generate

        return declare

    def files(
        self,
        name: str,
        *,
        folder: str | Path,
        to: Topic,
        format: FileFormat,  # noqa: A002  (the word users know)
        quiet: str = "2 seconds",
    ) -> FileSource:
        """Declare a folder: the rows of every file that is dropped there go to a topic, each file once.

        A file is taken when it has not changed for `quiet` and nobody has it open for writing; names that begin
        with a dot or end in .tmp or .part are not looked at. Then it is moved to FOLDER/taken, or, if it is not
        what it should be, to FOLDER/refused with the reason beside it. A row that does not fit goes to the dead
        letters of the topic.
        """
        where = caller()
        self._require_new_source(name, where)
        require_writable(to, f"files {name}", where)
        if format not in ("csv", "jsonl", "parquet"):
            raise wrong(f"files {name} have the format {format!r}", "use 'csv', 'jsonl' or 'parquet'", where)
        if not str(folder):
            raise wrong(f"files {name} have no folder", "folder='orders-in'", where)
        for other in self._folders.values():
            if other.folder.absolute() == Path(folder).absolute() and other.format == format:
                raise wrong(
                    f"files {name} are those of files {other.name}",
                    f"a file is taken once; the other is at {other.defined_at}",
                    where,
                )
        settled = duration(quiet, f"files {name}: quiet", where)
        self._folders[name] = FileSource(
            name=name,
            folder=Path(folder),
            topic=to,
            format=format,
            quiet=settled,
            marks=f"{self.name}.{name}.files",
            defined_at=where,
        )
        return self._folders[name]

    def http(
        self,
        name: str = "http",
        *,
        topics: Iterable[Topic],
        port: int,
        host: str = "127.0.0.1",
        token: str | None = None,
        certificate: str | Path | None = None,
        key: str | Path | None = None,
    ) -> HttpSource:
        """Declare a port that takes records by POST /topics/NAME: a JSON object, an array of them, or JSON lines.

        `token` names the environment variable with the token that requests must carry, as in
        ${env:INGEST_TOKEN}; without one only this machine may send. With a `certificate`, and its `key` unless it is
        in the same file, the port speaks TLS; both are PEM files.
        """
        where = caller()
        self._require_new_source(name, where)
        found: dict[str, Topic] = {}
        for topic in topics:
            require_writable(topic, f"http {name}", where)
            found[topic.name] = topic
        if not found:
            raise wrong(f"http {name} has no topics", "say topics=[readings]", where)
        if not 0 <= port <= 65_535:
            raise wrong(f"http {name} has port {port}", "use a number up to 65535; 0 takes a free one", where)
        for other in self._ports.values():
            if other.port == port != 0:
                raise wrong(
                    f"http {name} has the port of http {other.name}",
                    f"choose another; that one is at {other.defined_at}",
                    where,
                )
        variable = re.fullmatch(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}", token) if token is not None else None
        if token is not None and variable is None:
            # The value itself is not shown: it may be the token.
            raise wrong(
                f"the token of http {name} is no reference to one",
                "name the environment variable that has it, as in ${env:INGEST_TOKEN}",
                where,
            )
        if variable is None and host not in ("127.0.0.1", "::1", "localhost"):
            raise wrong(
                f"http {name} would take records from anyone who reaches {host}",
                "say token='${env:INGEST_TOKEN}', or leave out host",
                where,
            )
        if key is not None and certificate is None:
            raise wrong(f"http {name} has a key and no certificate", "say certificate='cert.pem' too", where)
        self._ports[name] = HttpSource(
            name=name,
            topics=found,
            host=host,
            port=port,
            token_variable=variable[1] if variable is not None else None,
            certificate=Path(certificate) if certificate is not None else None,
            key=Path(key) if key is not None else None,
            marks=f"{self.name}.{name}.requests",
            defined_at=where,
        )
        return self._ports[name]

    def cdc(
        self,
        name: str,
        *,
        tables: Mapping[str, type[Any]],
        password: str | None = None,
        partitions: int = 1,
        before: bool = False,
    ) -> ChangeCapture:
        """Declare a change capture: each table's snapshot and then its changes go to the topic NAME.SCHEMA.TABLE.

        `tables` has the dataclass of each table's rows. `password` is for a Connect of your own and names the place
        where it finds the database's password, such as ${env:ORDERS_DB_PASSWORD}. With `before`, PostgreSQL is told
        to send rows whole as they were (REPLICA IDENTITY FULL): otherwise of a deleted row only the key is known.

        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Order:
        ...     id: int
        >>> App("food").cdc("orders-db", tables={"public.orders": Order}).topics["public.orders"].name
        'orders-db.public.orders'
        """
        where = caller()
        require_name(name, "change capture", where)
        if name in self._captures:
            first = self._captures[name].defined_at
            raise wrong(f"change capture {name} is declared twice", f"the first is at {first}", where)
        if not isinstance(tables, Mapping) or not tables:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong(f"change capture {name} has no tables", "say tables={'public.orders': Order}", where)
        if password is not None and not re.fullmatch(r"\$\{[^{}:]+:[^{}]+\}", password):
            # The value itself is not shown: it may be the password.
            raise wrong(
                f"the password of change capture {name} is no reference to one",
                "say where Connect finds it, as in ${env:ORDERS_DB_PASSWORD}; the settings take passwords",
                where,
            )
        if partitions < 1:
            raise wrong(f"change capture {name} needs at least one partition", "partitions=1", where)
        topics: dict[str, Topic] = {}
        for table, row in tables.items():
            if not re.fullmatch(r"[A-Za-z0-9_]+\.[A-Za-z0-9_]+", table):
                raise wrong(
                    f"change capture {name}: {table!r} is no table",
                    "write schema.table: public.orders",
                    where,
                )
            if not (is_dataclass(row) and isinstance(row, type)):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise wrong(
                    f"change capture {name}: the rows of {table} are no dataclass",
                    "declare it with @dataclass",
                    where,
                )
            topic = f"{name}.{table}"
            require_name(topic, "topic", where, limit=249 - len(".dlq"))
            if topic in self._topics:
                raise wrong(
                    f"topic {topic} is declared twice",
                    f"the first is at {self._topics[topic].defined_at}",
                    where,
                )
            topics[table] = Topic(
                name=topic,
                value=row,
                partitions=partitions,
                format="json",
                compatibility="NONE",
                envelope="debezium",
                before=before,
                defined_at=where,
            )
        capture = ChangeCapture(
            name=name, connector=f"{self.name}.{name}", topics=topics, password=password, defined_at=where
        )
        self._captures[name] = capture
        return capture

    def delivery(
        self,
        topic: Topic,
        *,
        group_id: str | None = None,
        to: Topic | Destination | None = None,
        commit: Commit = "sync",
        start: Start = "earliest",
        batch: int | None = None,
        once_by: str | tuple[str, ...] = (),
        parallelism: int = 1,
        scale: tuple[int, int] = (1, 1),
        retry: str | Retry = "5 minutes",
    ) -> Callable[[Handler], Handler]:
        """Declare a delivery: a consumer group that hands each record of a topic to a function.

        The function takes a `gs.Record`, or with `batch` a list of them, and may be async. What it returns goes
        to `to`: a value or a list of values for a topic, rows or messages for a destination; None for nothing.
        On a topic of `cdc` its value is a `gs.Change`, and a destination with a key that gets the change back
        holds a copy of the table.
        """
        called_at = caller()
        if not isinstance(topic, Topic):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong(
                f"a delivery reads {topic!r}",
                "give it what app.topic gave, or one of app.cdc(…).topics",
                called_at,
            )

        def declare(handler: Handler) -> Handler:
            where = location_of(handler, called_at)
            name = handler.__name__
            require_name(name, "delivery", where)
            if name in self._deliveries:
                first = self._deliveries[name].defined_at
                raise wrong(f"delivery {name} is declared twice", f"the first is at {first}", where)
            group = group_id or f"{self.name}.{name}"
            self._require_own_group(group, f"delivery {name}", where)
            fields_of_once = (once_by,) if isinstance(once_by, str) else tuple(once_by)
            check_handler(name, handler, batch, where)
            check_once(name, topic, fields_of_once, where)
            check_numbers(name, topic, batch, parallelism, scale, where)
            if commit not in ("sync", "async"):
                raise wrong(f"delivery {name} has commit={commit!r}", "use 'sync' or 'async'", where)
            if start not in ("earliest", "latest", "error"):
                raise wrong(
                    f"delivery {name} has start={start!r}", "use 'earliest', 'latest' or 'error'", where
                )
            if not (to is None or isinstance(to, Topic | Destination)):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise wrong(f"delivery {name} writes to {to!r}", "to= takes a topic or a destination", where)
            check_copy(name, topic, to, parallelism, where)
            if isinstance(to, Topic) and to.name == topic.name:
                raise wrong(f"delivery {name} writes to the topic it reads", "use another topic", where)
            self._deliveries[name] = Delivery(
                name=name,
                handler=handler,
                topic=topic,
                group_id=group,
                target=to,
                commit=commit,
                start=start,
                batch=batch,
                once_by=fields_of_once,
                parallelism=parallelism,
                scale=scale,
                retry=retry_of(name, retry, where),
                is_async=inspect.iscoroutinefunction(inspect.unwrap(handler)),
                defined_at=where,
            )
            return handler

        return declare

    def _require_new_source(self, name: str, where: Location) -> None:
        require_name(name, "source", where, limit=249 - len(f"{self.name}..requests"))
        for declared in (self._sources, self._folders, self._ports):
            if name in declared:
                first = declared[name].defined_at
                raise wrong(f"source {name} is declared twice", f"the first is at {first}", where)

    def _require_own_group(self, group_id: str, who: str, where: Location) -> None:
        """A consumer group belongs to one reader: a second one would take records away from it."""
        for pipeline in self._pipelines.values():
            if group_id == f"{self.name}.{pipeline.name}":
                raise wrong(
                    f"{who} has the group id {group_id} of pipeline {pipeline.name}",
                    f"choose another; the pipeline is at {pipeline.defined_at}",
                    where,
                )
        for delivery in self._deliveries.values():
            if group_id == delivery.group_id:
                raise wrong(
                    f"{who} has the group id {group_id} of delivery {delivery.name}",
                    f"choose another; the delivery is at {delivery.defined_at}",
                    where,
                )
