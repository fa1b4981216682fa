"""Runs a pipeline on real Kafka and Spark in every gear that it can use, on topics, tables and checkpoints of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from gearshift.app import App
from gearshift.connection import Connection
from gearshift.definitions import Graph, Pipeline, Table, Topic
from gearshift.errors import DefinitionError, QueryError
from gearshift.freshness import Gear
from gearshift.pipelines.check.gears import Checker
from gearshift.pipelines.context import Context, Kafka
from gearshift.pipelines.stopping import Endings
from gearshift.runner.registering import make_topics
from gearshift.schemas import Registry
from gearshift.settings import Settings
from gearshift.spark.session import SHUFFLE_PARTITIONS, SPARE_SLOTS
from gearshift.storage.location import local_path
from gearshift.testing.arrival import Arrival
from gearshift.testing.clock import Clock
from gearshift.testing.gear_run import GearRun
from gearshift.testing.inputs import EventTime, Inputs, inputs_of
from gearshift.testing.interval_run import IntervalRun
from gearshift.testing.namespace import isolated, pipeline_named, unique_prefix
from gearshift.testing.results import Results
from gearshift.testing.sessions import Sessions
from gearshift.testing.stored import TableRows, rows_of
from gearshift.testing.written import reasons_on, values_on
from gearshift.topics import Admin, DeadLetters

_WITHIN = timedelta(minutes=8)
# A batch is ended as soon as it has read what was sent, so the interval only bounds what is not ended in time.
_CHECKPOINT_INTERVAL = timedelta(seconds=30)


class Run:
    """Runs pipelines in their gears."""

    def __init__(
        self, sessions: Sessions, connect: Callable[[], Connection], clock: Clock, folder: Path
    ) -> None:
        """`connect` starts Kafka when a run first needs it; `folder` gets tables and checkpoints."""
        self._sessions = sessions
        self._connect = connect
        self._clock = clock
        self._folder = folder

    def __call__(
        self,
        app: App,
        pipeline: Callable[..., Any] | str,
        values: Mapping[str, Sequence[Any]],
        *,
        gears: Iterable[Gear | str] | None = None,
        late: float = 0.0,
        repeated: float = 0.0,
        disorder: timedelta | None = None,
        event_time: EventTime = None,
        seed: int = 7,
        within: timedelta = _WITHIN,
    ) -> Results:
        """Process the values of each source, by the name of its topic or table, in every gear that `check` allows.

        `late` and `repeated` are the shares of values that arrive late and again, `disorder` the span of event time
        within which they arrive out of order. A failure of the pipeline is raised, with its file and line.
        """
        __tracebackhide__ = True
        chosen = pipeline_named(app, pipeline)
        arrival = Arrival(late=late, repeated=repeated, disorder=disorder, seed=seed)
        inputs = inputs_of(chosen, values, arrival, event_time)
        wanted = None if gears is None else [Gear.named(gear) for gear in gears]
        one = _OneRun(self._sessions, self._folder / unique_prefix(), app.graph, chosen, inputs)
        return one.results(self._connect, self._clock, wanted, within)


class _OneRun:
    """One call: the gears it runs in, what runs in each, and what each left."""

    def __init__(
        self, sessions: Sessions, folder: Path, graph: Graph, pipeline: Pipeline, inputs: Inputs
    ) -> None:
        self._sessions = sessions
        self._folder = folder
        self._prefix = folder.name
        self._graph = graph
        self._pipeline = pipeline
        self._inputs = inputs
        self._spark = sessions.open(graph, slots=_slots(pipeline))

    def results(
        self,
        connect: Callable[[], Connection],
        clock: Clock,
        wanted: Sequence[Gear] | None,
        within: timedelta,
    ) -> Results:
        """Run the pipeline in the wanted gears, or in all that it can use."""
        __tracebackhide__ = True
        pipeline = self._pipeline
        gears = self._gears(wanted)
        if pipeline.intervals is not None:
            return self._over_intervals(clock, within)
        with ExitStack() as opened:
            connection = connect()
            admin = opened.enter_context(Admin(connection))
            registry = opened.enter_context(Registry(connection))
            letters = opened.enter_context(DeadLetters(connection))
            kafka = Kafka(connection=connection, admin=admin)
            endings = Endings(self._spark)
            contexts = [self._context(gear, kafka, endings) for gear in gears]
            topics = [topic for each in contexts for topic in each.graph.topics.values()]
            make_topics(_all_of(contexts), topics, admin, registry)
            runs: list[GearRun] = []
            try:
                for context in contexts:
                    values = {
                        name: self._inputs.topics[topic.name] for name, topic in pipeline.topics.items()
                    }
                    runs.append(GearRun(context, values, registry, letters, self._sessions))
                _run_all(runs, within)
            finally:
                _close_all(runs)
            found = {run.gear: self._values(run.context, connection, registry) for run in runs}
            reasons = {run.gear: _reasons(run.context, connection, admin) for run in runs}
            for context in contexts:
                context.publisher.close()
        return Results(found, key=_key_of(pipeline), dead_letters=reasons)

    def _over_intervals(self, clock: Clock, within: timedelta) -> Results:
        __tracebackhide__ = True
        context = self._context(Gear.BATCH, None, None, with_rows=False)
        rows = {
            name: (
                TableRows(self._spark, self._graph, table, self._inputs.tables[table.name]),
                self._inputs.tables[table.name],
            )
            for name, table in self._pipeline.tables.items()
        }
        run = IntervalRun(context, rows, clock)
        try:
            _run_all([run], within)
        finally:
            run.close()
        found = {Gear.BATCH: self._values(context, None, None)}
        return Results(found, key=_key_of(self._pipeline), dead_letters={Gear.BATCH: []})

    def _gears(self, wanted: Sequence[Gear] | None) -> list[Gear]:
        """The gears to run; raises the check's reason for a gear that it does not allow."""
        __tracebackhide__ = True
        settings = self._settings("check")
        context = Context(spark=self._spark, settings=settings, graph=self._graph)
        for table in self._pipeline.tables.values():
            rows = self._inputs.tables[table.name]
            TableRows(self._spark, self._graph, table, rows).write(context.table_uri(table), rows)
        report = Checker(context).report(self._pipeline)
        if wanted is not None and not wanted:
            raise DefinitionError("gears= is empty", hint=f"give some of {', '.join(Gear)}, or none at all")
        for gear in wanted or ():
            report.require(gear)
        allowed = wanted or [gear for gear, verdict in report.verdicts.items() if verdict.ok]
        if not allowed:
            report.require(self._pipeline.gear)
        return list(dict.fromkeys(allowed))

    def _context(
        self, gear: Gear, kafka: Kafka | None, endings: Endings | None, *, with_rows: bool = True
    ) -> Context:
        settings = self._settings(str(gear))
        if with_rows:
            for table in self._pipeline.tables.values():
                _copy(self._settings("check"), settings, table)
        graph = isolated(self._graph, self._pipeline, gear, self._prefix)
        return Context(spark=self._spark, settings=settings, graph=graph, kafka=kafka, endings=endings)

    def _settings(self, name: str) -> Settings:
        return self._sessions.settings.model_copy(
            update={"home": self._folder / name, "checkpoint_interval": _CHECKPOINT_INTERVAL}
        )

    def _values(
        self, context: Context, connection: Connection | None, registry: Registry | None
    ) -> list[Any]:
        [pipeline] = context.graph.pipelines.values()
        if isinstance(pipeline.target, Table):
            return rows_of(self._spark, context.table_uri(pipeline.target))
        assert connection is not None
        assert registry is not None
        return values_on(connection, registry, pipeline.target)


def _run_all(runs: Sequence[GearRun | IntervalRun], within: timedelta) -> None:
    """Run all gears in parallel, which mostly wait; raises the first failure, or that the time is over."""
    __tracebackhide__ = True
    pool = ThreadPoolExecutor(len(runs), thread_name_prefix="gearshift_run")
    running: dict[Future[None], GearRun | IntervalRun] = {pool.submit(run.run): run for run in runs}
    try:
        done, left = wait(running, within.total_seconds(), FIRST_EXCEPTION)
        for future in sorted(done, key=list(running).index):
            if error := future.exception():
                error.add_note(f"in {running[future].gear}")
                raise error
        for future in left:
            run = running[future]
            raise QueryError(
                f"not processed in {run.gear} within {within.total_seconds():g} s: {run.progress}",
                hint="give it more time with within=, or see what it waits for in the Spark log",
                pipeline=run.pipeline.name,
            )
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _close_all(runs: Iterable[GearRun]) -> None:
    with ExitStack() as closing:
        for run in runs:
            closing.callback(run.close)


def _reasons(context: Context, connection: Connection, admin: Admin) -> list[str]:
    [pipeline] = context.graph.pipelines.values()
    sources = [topic.dead_letters for topic in pipeline.topics.values()]
    return reasons_on(connection, admin, [*sources, pipeline.target.dead_letters])


def _copy(origin: Settings, to: Settings, table: Table) -> None:
    """Copy a table that was written once: its log has relative paths."""
    source = local_path(f"{origin.warehouse_uri}/{table.name}")
    target = local_path(f"{to.warehouse_uri}/{table.name}")
    assert source is not None
    assert target is not None
    if Path(source).exists() and not Path(target).exists():
        shutil.copytree(source, target)


def _all_of(contexts: Sequence[Context]) -> Graph:
    """One graph with the topics of all gears."""
    topics: dict[str, Topic] = {}
    for context in contexts:
        topics.update(context.graph.topics)
    return replace(contexts[0].graph, topics=topics)


def _key_of(pipeline: Pipeline) -> tuple[str, ...]:
    target = pipeline.target
    if isinstance(target, Table):
        return target.key
    return (target.key,) if target.key is not None else ()


def _slots(pipeline: Pipeline) -> int:
    """The task slots for the gears in parallel: real-time holds one per partition while it runs."""
    partitions = sum(topic.partitions for topic in pipeline.topics.values())
    return partitions + 3 * (pipeline.parallelism or SHUFFLE_PARTITIONS) + 2 * SPARE_SLOTS
