"""What an app declares to put records on topics: simulated sources, files, HTTP and change capture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from gearshift.definitions import (
    ChangeCapture,
    DatabaseKind,
    FileFormat,
    FileSource,
    Graph,
    HttpSource,
    Source,
    Topic,
)
from gearshift.rules import captures, sources
from gearshift.rules.declared import caller, duration, location_of

Generator = TypeVar("Generator", bound=Callable[..., Iterator[Any]])


class Sources:
    """The part of an app that declares sources."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @property
    def graph(self) -> Graph:
        """Everything declared so far, as a frozen value."""
        return self._graph

    @property
    def name(self) -> str:
        """The app's name."""
        return self._graph.app

    @property
    def timezone(self) -> str:
        """The time zone of calendars and days."""
        return self._graph.timezone

    def source(
        self,
        *,
        to: Topic,
        rate: float = 1.0,
        seed: int | None = None,
        day: Sequence[float] | Callable[[float], float] = (),
        out_of_order: float = 0.0,
        max_delay: str = "1 minute",
        duplicates: float = 0.0,
        time_factor: float = 1.0,
    ) -> Callable[[Generator], Generator]:
        """Declare a simulated source: a generator of values that are sent at `rate` records per second.

        `day` is the shape of the day around that mean: 24 weights, or a function of the hour. With a `seed` the
        generator may take a `random.Random`, the sequence is reproducible and resumes after a restart, and shares of
        it can be sent `out_of_order`, up to `max_delay` late, and as `duplicates`. The clock of the simulated day runs
        `time_factor` times as fast as real time.
        """
        called_at = caller()

        def declare(generate: Generator) -> Generator:
            where = location_of(generate, called_at)
            name = generate.__name__
            source = Source(
                name=name,
                generate=generate,
                topic=to,
                rate=rate,
                seed=seed,
                day=sources.shape_of_day(name, day, where),
                out_of_order=out_of_order,
                max_delay=duration(max_delay, f"source {name}: max_delay", where),
                duplicates=duplicates,
                time_factor=time_factor,
                timezone=self.timezone,
                marks=f"{self.name}.{name}.sequence",
                defined_at=where,
            )
            sources.check_simulated(source, self._graph)
            self._graph = replace(self._graph, sources={**self._graph.sources, name: source})
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
        """Declare a folder: the rows of each file that is dropped there go to a topic, each file once.

        A file is taken when it has been unchanged for `quiet` and no process has it open for writing; names that
        start with a dot or end in .tmp or .part are ignored. It is then moved to FOLDER/taken; a file that cannot be
        read is moved to FOLDER/refused, with the reason next to it. A row that does not fit becomes a dead letter.
        """
        where = caller()
        sources.require_folder(name, folder, where)
        source = FileSource(
            name=name,
            folder=Path(folder),
            topic=to,
            format=format,
            quiet=duration(quiet, f"files {name}: quiet", where),
            marks=f"{self.name}.{name}.files",
            defined_at=where,
        )
        sources.check_files(source, self._graph)
        self._graph = replace(self._graph, file_sources={**self._graph.file_sources, name: source})
        return source

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
        """Declare a port that takes records by POST /topics/NAME: a JSON object, an array of objects, or JSON lines.

        `token` refers to the environment variable with the bearer token of requests, such as ${env:INGEST_TOKEN};
        without one only this machine may send. With a `certificate`, and its `key` unless both are in one file, the
        port serves HTTPS; both are PEM files.
        """
        where = caller()
        source = HttpSource(
            name=name,
            topics=sources.topics_of(name, topics, where),
            host=host,
            port=port,
            token_variable=sources.token_variable(name, token, where),
            certificate=Path(certificate) if certificate is not None else None,
            key=Path(key) if key is not None else None,
            marks=f"{self.name}.{name}.requests",
            defined_at=where,
        )
        sources.check_http(source, self._graph)
        self._graph = replace(self._graph, http_sources={**self._graph.http_sources, name: source})
        return source

    def cdc(
        self,
        name: str,
        *,
        tables: Mapping[str, type[Any]],
        password: str | None = None,
        partitions: int = 1,
        before: bool = True,
        database: DatabaseKind = "postgres",
    ) -> ChangeCapture:
        """Declare a change capture: each table's snapshot, then its changes, go to the topic NAME.SCHEMA.TABLE.

        `tables` maps each table to the dataclass of its rows, and `database` names the setting with the database's
        address. `password` is for your own Kafka Connect: a reference that it resolves, such as
        ${env:ORDERS_DB_PASSWORD}. PostgreSQL's tables get REPLICA IDENTITY FULL, unless `before=False`: then only the
        key of a deleted row is known, and an update that leaves a large value unchanged becomes a dead letter, since
        PostgreSQL does not send that value.
        """
        where = caller()
        capture = ChangeCapture(
            name=name,
            connector=f"{self.name}.{name}",
            topics=captures.captured_topics(name, tables, partitions, before, where),
            database=database,
            password=password,
            defined_at=where,
        )
        captures.check_capture(capture, self._graph)
        self._graph = replace(self._graph, captures={**self._graph.captures, name: capture})
        return capture
