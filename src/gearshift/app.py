"""App: the object on which a user declares topics, tables, pipelines, sources and deliveries."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from gearshift.alert import Level
from gearshift.app_sources import Sources
from gearshift.boards import Board, Panel
from gearshift.definitions import (
    AsOf,
    Catalog,
    Commit,
    Delivery,
    Envelope,
    Format,
    Graph,
    Notification,
    OnInvalid,
    OnSchemaChange,
    Pipeline,
    Retry,
    Start,
    Table,
    Topic,
)
from gearshift.record import Destination
from gearshift.rules import (
    boards,
    deliveries,
    intervals,
    notifications,
    pipelines,
    tables,
    topics,
)
from gearshift.rules.declared import caller, columns, location_of, require_name, require_timezone

Transform = TypeVar("Transform", bound=Callable[..., Any])
Handler = TypeVar("Handler", bound=Callable[..., Any])
Generator = TypeVar("Generator", bound=Callable[..., Iterator[Any]])


class App(Sources):
    """An app: everything that is declared on one object, without a global registry.

    The first argument is a name or what is read; `to=` is what is written. A decorator returns the function it was
    given, so that it can be tested as a plain function.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Reading:
    ...     meter_id: str
    ...     load_kw: float
    >>> app = App("smart-meter")
    >>> readings = app.topic("meter-readings", value=Reading, key="meter_id", partitions=3)
    >>> history = app.table("readings_history")
    >>> @app.pipeline(readings, to=history, freshness="1 minute")
    ... def keep_history(readings):
    ...     return readings
    >>> app.graph.pipelines["keep_history"].gear
    <Gear.NEAR_REAL_TIME: 'near-real-time'>
    """

    def __init__(self, name: str, *, timezone: str = "UTC") -> None:
        where = caller()
        require_name(name, "app", where)
        require_timezone(timezone, where)
        super().__init__(Graph(app=name, timezone=timezone))

    def topic(
        self,
        name: str,
        *,
        value: type[Any],
        key: str | None = None,
        partitions: int = 1,
        replicas: int | None = None,
        format: Format = "avro",  # noqa: A002  (the word users know)
        compatibility: str | None = None,
        max_lag: int | None = None,
        envelope: Envelope | None = None,
        external: bool = False,
    ) -> Topic:
        """Declare a topic whose values are of the dataclass `value` and whose key is one of its fields.

        With `envelope="debezium"` your own connector fills it with changes of such rows. With `external=True` it has
        another owner: it must exist, every registered version of its schema must be readable as `value`, and neither
        the topic nor its schemas are created or changed. To write to it, `value` must match one of the versions.
        """
        topic = Topic(
            name=name,
            value=value,
            key=key,
            partitions=partitions,
            replicas=replicas,
            format=format,
            compatibility=compatibility or "BACKWARD",
            max_lag=max_lag,
            envelope=envelope,
            external=external,
            defined_at=caller(),
        )
        topics.check_topic(topic, self._graph.topics)
        topics.check_external(topic, compatibility)
        self._graph = replace(self._graph, topics={**self._graph.topics, name: topic})
        return topic

    def table(
        self,
        name: str,
        *,
        partition_by: str | tuple[str, ...] = (),
        key: str | tuple[str, ...] = (),
        sequence_by: str | tuple[str, ...] = (),
        deleted: str | None = None,
        on_schema_change: OnSchemaChange = "append_new_columns",
        publish: Catalog | None = None,
    ) -> Table:
        """Declare a warehouse table. Batches are appended; with a `key`, rows are upserted.

        Of the rows with one key the highest by `sequence_by` wins, whatever the order of arrival; a row whose column
        `deleted` is true removes its key. The table takes new columns and wider types, unless `on_schema_change` is
        "fail". With `publish="hive"` it is a Hive table too, which shows each batch when it is committed.
        """
        table = Table(
            name=name,
            partition_by=columns(partition_by),
            key=columns(key),
            sequence_by=columns(sequence_by),
            deleted=deleted,
            on_schema_change=on_schema_change,
            publish=publish,
            defined_at=caller(),
        )
        tables.check_table(table, self._graph.tables)
        self._graph = replace(self._graph, tables={**self._graph.tables, name: table})
        return table

    def pipeline(
        self,
        source: Topic | Table | Mapping[str, Topic | Table],
        *,
        to: Topic | Table,
        freshness: str | None = None,
        gear: str | None = None,
        gears: Mapping[str, str] | None = None,
        cron: str | None = None,
        event_time: str | Mapping[str, str] | None = None,
        grace: str | None = None,
        allowed_lateness: str | None = None,
        since: str | date | None = None,
        as_of: AsOf | None = None,
        refresh: str | None = None,
        on_invalid: OnInvalid = "dead-letter",
        parallelism: int | None = None,
    ) -> Callable[[Transform], Transform]:
        """Declare a pipeline: a function from DataFrames to a DataFrame. Several sources are a dict by parameter name.

        With `gear="auto"` the gearbox keeps the `freshness` at the least cost: it shifts while the pipeline runs, on
        what it measures. `gears` is a timetable in the app's time zone, such as
        `{"mon-fri 09:00-17:30": "real-time", "otherwise": "near-real-time"}`.

        With `event_time`, a column of the source, each batch run computes one interval of the calendar: it reads the
        interval's rows, and its result replaces that of an earlier run. The function may have a parameter `interval`.
        A run starts `grace` after the end of the interval, and again when rows arrive later, up to
        `allowed_lateness` after the end. The calendar begins with the oldest row, or at `since`.

        From a captured table it reads the changes (`before`, `after`, `op`, `source_time`, `position`), or with
        `as_of="latest"` the current rows with `_deleted` and `_position`, for a table with a key.

        A stream that joins a table picks up the table's changes every `refresh`, by default every `freshness`, but
        at most once a minute. A result row that the target cannot take, such as one with a null in a required field,
        becomes a dead letter of the target; with `on_invalid="stop"` it stops the pipeline.

        `parallelism` is the number of shuffle partitions, and so of tasks that share the state, with which a new
        checkpoint begins; `gearshift scale` changes it later.
        """
        called_at = caller()

        def declare(transform: Transform) -> Transform:
            where = location_of(transform, called_at)
            name = transform.__name__
            auto, timetable = gear == pipelines.AUTO, pipelines.timetable_of(name, gear, gears, cron, where)
            if auto:
                pipelines.require_promise(name, freshness, cron, where)
            first = str(timetable.hours[0].gear) if timetable is not None else None if auto else gear
            promise, chosen, schedule = pipelines.schedule_of(name, freshness, first, cron, where)
            parameters, takes_interval = intervals.parameters_of(transform, source, event_time)
            matched = pipelines.match_sources(name, parameters, source, where)
            pipeline = Pipeline(
                name=name,
                transform=transform,
                sources=pipelines.as_of(name, matched, to, as_of, where),
                target=to,
                freshness=promise,
                gear=chosen,
                auto=auto,
                timetable=timetable,
                cron=schedule,
                refresh=pipelines.refresh_of(name, matched, refresh, promise, where),
                on_invalid=on_invalid,
                parallelism=parallelism,
                defined_at=where,
            )
            pipelines.check_pipeline(pipeline, self._graph)
            zone = ZoneInfo(self.timezone)
            declared = intervals.declare_intervals(
                pipeline, event_time, grace, allowed_lateness, since, zone=zone, is_parameter=takes_interval
            )
            intervals.check_writers(declared, self._graph.pipelines.values())
            self._graph = replace(self._graph, pipelines={**self._graph.pipelines, name: declared})
            return transform

        return declare

    def delivery(
        self,
        source: Topic,
        *,
        group_id: str | None = None,
        to: Topic | Destination | None = None,
        commit: Commit = "sync",
        start: Start = "earliest",
        batch_size: int | None = None,
        once_by: str | tuple[str, ...] = (),
        parallelism: int = 1,
        consumers: tuple[int, int] = (1, 1),
        retry: str | Retry = "5 minutes",
    ) -> Callable[[Handler], Handler]:
        """Declare a delivery: a consumer group that passes each record of a topic to a function.

        The function takes a `gs.Record`, or with `batch_size` a list of them, and may be async. Its result goes to
        `to`: one value or a list of values for a topic, rows or messages for a destination, None for nothing. On a
        topic of `cdc` the record's value is a `gs.Change`; a destination with a key to which the function returns the
        changes holds a copy of the table.
        """
        called_at = caller()
        deliveries.require_topic(source, called_at)

        def declare(handler: Handler) -> Handler:
            where = location_of(handler, called_at)
            name = handler.__name__
            delivery = Delivery(
                name=name,
                handler=handler,
                topic=source,
                group_id=group_id or f"{self.name}.{name}",
                target=to,
                commit=commit,
                start=start,
                batch_size=batch_size,
                once_by=columns(once_by),
                parallelism=parallelism,
                consumers=consumers,
                retry=deliveries.retry_of(name, retry, where),
                is_async=inspect.iscoroutinefunction(inspect.unwrap(handler)),
                defined_at=where,
            )
            deliveries.check_delivery(delivery, self._graph)
            self._graph = replace(self._graph, deliveries={**self._graph.deliveries, name: delivery})
            return handler

        return declare

    def board(self, name: str, *panels: Panel, title: str | None = None) -> Board:
        """Declare a board: a page of the console with panels on topics and tables of this app.

        A panel of a topic shows its records, or with a key the latest record of each; one of a table follows its
        newest version.
        """
        board = Board(
            name=name,
            title=title or name.replace("-", " ").replace("_", " ").capitalize(),
            panels=panels,
            defined_at=caller(),
        )
        boards.check_board(board, self._graph)
        self._graph = replace(self._graph, boards={**self._graph.boards, name: board})
        return board

    def alert(
        self, to: Destination, *, levels: tuple[Level, ...] = ("error", "warning")
    ) -> Callable[[Handler], Handler]:
        """Declare a notification: each alert of the running app goes once to a destination.

        The function takes a `gs.Alert` and returns the message: what the destination takes, such as a mapping for a
        webhook, or None for nothing.
        """
        called_at = caller()

        def declare(handler: Handler) -> Handler:
            name = handler.__name__
            notification = Notification(
                name=name,
                handler=handler,
                target=to,
                levels=levels,
                defined_at=location_of(handler, called_at),
            )
            notifications.check_notification(notification, self._graph)
            self._graph = replace(
                self._graph, notifications={**self._graph.notifications, name: notification}
            )
            return handler

        return declare
