"""Runs an app: starts everything it declares in order, and stops it in reverse."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from gearshift import stack as local
from gearshift.app import App
from gearshift.connection import Connection
from gearshift.console.console import Emit
from gearshift.console.runner_info import RunnerInfo
from gearshift.definitions import Graph
from gearshift.errors import DefinitionError
from gearshift.freshness import Gear
from gearshift.gearbox.measurements import Limits
from gearshift.pipelines.check.gears import Checker, Report
from gearshift.pipelines.check.requirements import Requirements
from gearshift.pipelines.context import Context, Kafka
from gearshift.pipelines.ledger.reconciliation import require_checkpoint
from gearshift.pipelines.listener import Progress, listen
from gearshift.pipelines.shift import Shifted
from gearshift.pipelines.stopping import Endings
from gearshift.pipelines.supervisor import Supervisor
from gearshift.runner import captures as capturing
from gearshift.runner.deliveries.consumer_group import ConsumerGroup, start_consumer_groups
from gearshift.runner.describing import pipeline_details, pipeline_status, waiting_for
from gearshift.runner.gearbox.gearboxes import AUTO, Gearboxes, require_gears
from gearshift.runner.maintenance import Maintenance
from gearshift.runner.notifying import Notifier
from gearshift.runner.rates import Rates
from gearshift.runner.reaching import require_reachable
from gearshift.runner.registering import grant_rules, make_topics
from gearshift.runner.serving import make_console
from gearshift.runner.single_runner import lock_home
from gearshift.runner.sources import SupervisedSource, sources_of
from gearshift.runner.supervisors import (
    await_readers,
    close_supervisors,
    create_supervisors,
    open_supervisors,
)
from gearshift.schemas import Registry
from gearshift.settings import Settings
from gearshift.sources.cdc.capture import Capture
from gearshift.spark.private import java_pid, release_thread
from gearshift.spark.session import jars_for, open_session
from gearshift.stack.processes.restarts import ServiceSupervisor
from gearshift.stack.processes.service import Pid
from gearshift.stack.services.optional import local_services
from gearshift.topics import Admin, DeadLetters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


def _silent(_: str) -> None: ...


class Runner:
    """A running app; leaving the context stops everything in reverse order."""

    def __init__(
        self,
        app: App,
        settings: Settings,
        *,
        file: Path | None = None,
        read_only: bool = False,
        limits: Limits | None = None,
        progress: Callable[[str], None] = _silent,
    ) -> None:
        self.app = app
        self.graph = app.graph
        self.settings = settings.model_copy(update={"services": _services(app.graph, settings)})
        self.supervisors: dict[str, Supervisor] = {}
        self.sources: dict[str, SupervisedSource] = {}
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        self.captures: dict[str, Capture] = {}
        self._file = file
        self._progress = progress
        self._exit = ExitStack()
        self._began = datetime.now(UTC)
        self._rates: Rates | None = None
        self._read_only = read_only
        self._limits = limits or Limits()
        self._is_started = False

    @property
    def page(self) -> str:
        """The address of the console's page."""
        return self._console.page

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._exit.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gearboxes.stop()
        close_supervisors(self.supervisors.values())
        self._exit.close()

    def shift(
        self,
        pipeline: str,
        gear: Gear,
        *,
        now: bool = False,
        hold: str | None = None,
        on_step: Callable[[str, str], None] = lambda _step, _message: None,
    ) -> Shifted:
        """Shift a pipeline to a gear; a gearbox keeps it there for as long as `hold` says, or until `release`."""
        supervisor = self._supervisor(pipeline)
        return self._gearboxes.shift(supervisor, gear, hold=hold, now=now, on_step=on_step)

    def release(self, pipeline: str) -> None:
        """Let the gearbox decide again, after a person's shift."""
        self._gearboxes.release(self._supervisor(pipeline))

    def why(self, pipeline: str) -> dict[str, Any]:
        """Why a pipeline is in its gear, what would change it, and the numbers behind it."""
        return self._gearboxes.why(self._supervisor(pipeline))

    def _supervisor(self, pipeline: str) -> Supervisor:
        if pipeline not in self.supervisors:
            raise DefinitionError(
                f"unknown pipeline {pipeline!r}",
                hint=f"use one of {', '.join(self.supervisors)}",
                app=self.graph.app,
            )
        return self.supervisors[pipeline]

    def status(self) -> dict[str, Any]:
        """The status of everything, as plain data."""
        return {
            "app": self.graph.app,
            "file": str(self._file) if self._file else None,
            "pid": os.getpid(),
            "since": self._began.isoformat(),
            "console": self._console.url,
            "metrics": f"{self._console.url}/metrics",
            "bootstrap_servers": self.stack.bootstrap_servers,
            "registry_url": self.stack.registry_url,
            "pipelines": [self._pipeline_status(supervisor) for supervisor in self.supervisors.values()],
            "deliveries": [group.status() for group in self.consumer_groups.values()],
            "captures": [capturing.describe(capture) for capture in self.captures.values()],
            "sources": [source.status() for source in self.sources.values()],
            "topics": self._rates.topics() if self._rates is not None else [],
        }

    # start, in this order; each step registers how it is stopped

    def _start(self) -> None:
        self._exit.enter_context(lock_home(self.settings.home, progress=self._progress))
        require_reachable(self.settings)
        with ThreadPoolExecutor(1) as pool:
            spark = self._start_spark(pool)
            # Planning needs only Spark, so it is finished by the time the slowest service is ready.
            planning = pool.submit(self._plan, spark)
            try:
                connection, admin, registry = self._start_stack()
                self._create_topics(admin, registry)
            except BaseException:
                planning.cancel()
                raise
            finally:
                self.spark = spark.result()
                self._at_exit(self.spark.stop)
            reports = planning.result()
        self._reports = reports
        self._create_supervisors(connection, admin, registry, reports)
        self._check(reports)
        listen(self.spark, self._on_progress)
        self._start_console(connection)
        self._start_captures(connection)
        self._start_rates()
        self._start_pipelines()
        self._exit.enter_context(Maintenance(self.graph, self.settings))
        self._start_deliveries(connection)
        self._start_sources(connection)
        self._gearboxes.open()
        self._is_started = True

    def _start_spark(self, pool: ThreadPoolExecutor) -> Future[SparkSession]:
        spark_jars = jars_for(self.settings)
        self._progress("starting Spark")
        log_file = self.settings.home.absolute() / "logs" / "spark.log"
        return pool.submit(open_session, self.graph, self.settings, spark_jars, log_file=log_file)

    def _plan(self, opening: Future[SparkSession]) -> dict[str, Report]:
        """Plan each pipeline; raises if a pipeline cannot run in any gear."""
        spark = opening.result()
        self._progress("checking pipelines")
        checker = Checker(Context(spark=spark, settings=self.settings, graph=self.graph))
        return {name: checker.report(pipeline) for name, pipeline in self.graph.pipelines.items()}

    def _start_stack(self) -> tuple[Connection, Admin, Registry]:
        self.stack = self._exit.enter_context(local.up(self.settings, progress=self._progress))
        self.service_supervisor = self._exit.enter_context(
            ServiceSupervisor(self.stack, progress=self._progress)
        )
        connection = self.stack.connection
        admin = self._exit.enter_context(Admin(connection))
        registry = self._exit.enter_context(Registry(connection))
        return connection, admin, registry

    def _create_topics(self, admin: Admin, registry: Registry) -> None:
        self._progress("creating topics and registering schemas")
        grant_rules(self.graph, self.settings)
        make_topics(self.graph, capturing.topics_of(self.graph), admin, registry)

    def _create_supervisors(
        self, connection: Connection, admin: Admin, registry: Registry, reports: dict[str, Report]
    ) -> None:
        self.context = Context(
            spark=self.spark,
            settings=self.settings,
            graph=self.graph,
            kafka=Kafka(connection=connection, admin=admin),
            endings=Endings(self.spark),
        )
        self._at_exit(self.context.publisher.close)
        letters = self._exit.enter_context(DeadLetters(connection))
        self.supervisors.update(
            create_supervisors(self.context, registry, letters, reports, at_exit=self._at_exit)
        )
        self._requirements = Requirements(self.context, Checker(self.context, reports), self.supervisors)

    def _check(self, reports: dict[str, Report]) -> None:
        """Raise, before any pipeline starts, if one cannot run in its gear."""
        real_time: list[Report] = []
        for name, supervisor in self.supervisors.items():
            report = reports[name]
            require_gears(supervisor, report)
            require_checkpoint(supervisor.ledger)
            self._requirements.require_checkpoint(supervisor, supervisor.gear)
            if supervisor.gear is Gear.REAL_TIME and supervisor.pipeline.chosen_by is None:
                real_time.append(report)
        if real_time:
            self._requirements.require_slots(real_time)
        self._gearboxes = Gearboxes(
            self.supervisors,
            reports,
            self._requirements,
            self._limits,
            figures=lambda name: self._rates.figures.get(name) if self._rates is not None else None,
            problem=lambda: self.service_supervisor.problem,
        )

    def _start_console(self, connection: Connection) -> None:
        notifier = Notifier(self.graph, self.settings.home)
        self._console = make_console(
            self,
            self.settings,
            connection,
            notify=notifier.take,
            file=self._file,
            read_only=self._read_only,
            spark=Pid.of(java_pid(self.spark)),
        )
        self._exit.callback(RunnerInfo.remove, self.settings.home)
        self._at_exit(notifier.close)
        self._exit.callback(self._console.close)
        notifier.open()
        self._console.open()

    def _start_captures(self, connection: Connection) -> None:
        self.captures = capturing.start_captures(
            self.graph, connection, self.settings, progress=self._progress, at_exit=self._at_exit
        )

    def _start_rates(self) -> None:
        topics = (topic.name for topic in capturing.topics_of(self.graph))
        self._rates = Rates(self.context, self.supervisors.values(), topics)
        self._exit.callback(self._rates.close)
        self._rates.open()

    def _start_pipelines(self) -> None:
        chosen = self._gearboxes.choose_first()
        self._at_exit(self._gearboxes.close)
        for supervisor in self.supervisors.values():
            self._progress(f"starting {supervisor.pipeline.name} in {supervisor.gear}")
            self._at_exit(supervisor.close)
        open_supervisors(self.supervisors, chosen)

    def _start_deliveries(self, connection: Connection) -> None:
        self.consumer_groups = start_consumer_groups(
            self.graph,
            connection,
            self.settings,
            file=self._file,
            progress=self._progress,
            at_exit=self._at_exit,
        )

    def _start_sources(self, connection: Connection) -> None:
        create = sources_of(self.graph, connection)
        if create:
            await_readers(self.supervisors.values(), self.consumer_groups.values())
        self.sources = {name: SupervisedSource(name, make) for name, make in create.items()}
        for source in self.sources.values():
            self._at_exit(source.close)
            source.open()

    def _at_exit(self, close: Callable[[], None]) -> None:
        """Call `close` when the runner stops; an error in it is logged and does not stop the others."""

        def quietly() -> None:
            try:
                close()
            except Exception:
                log.warning("not closed cleanly: %s", close, exc_info=True)

        self._exit.callback(quietly)

    # while it runs

    def shift_for(self, pipeline: str, gear: str, now: bool, emit: Emit, hold: str | None = None) -> None:
        """Shift a pipeline, and emit each step and the result; "auto" lets its gearbox decide again."""
        if gear == AUTO:
            self.release(pipeline)
            emit({"released": self.why(pipeline)})
            return
        try:
            done = self.shift(
                pipeline,
                Gear.named(gear),
                now=now,
                hold=hold,
                on_step=lambda step, message: emit({"step": step, "words": message}),
            )
        finally:
            release_thread()  # each request has its own thread
        emit({"shifted": asdict(done)})

    def details(self, pipeline: str) -> dict[str, Any]:
        """A pipeline's status, gears, ledger, plan, state and latest batch, as plain data."""
        supervisor = self.supervisors[pipeline]
        try:
            details = pipeline_details(supervisor, self._reports[pipeline])
        finally:
            release_thread()  # the plan is Spark's, and each request may have its own thread
        return {**details, "status": self._pipeline_status(supervisor), "why": self.why(pipeline)}

    def waiting_for(self) -> list[str]:
        """What is not ready yet."""
        return waiting_for(self.status()) if self._is_started else ["the app starts"]

    def run_interval(self, pipeline: str, start: datetime) -> dict[str, Any]:
        """Run one interval of a pipeline next; returns which."""
        interval = self.supervisors[pipeline].run_interval(start)
        return {
            "pipeline": pipeline,
            "start": interval.start.isoformat(),
            "end": interval.end.isoformat(),
        }

    def _on_progress(self, progress: Progress) -> None:
        for supervisor in self.supervisors.values():
            if progress.query == self.context.query_name(supervisor.pipeline):
                supervisor.on_progress(progress)

    def _pipeline_status(self, supervisor: Supervisor) -> dict[str, Any]:
        name = supervisor.pipeline.name
        problem = (
            self.service_supervisor.problem
            if supervisor.pipeline.topics and supervisor.condition.state != "stopped"
            else None
        )
        return pipeline_status(
            supervisor,
            self._rates.figures.get(name) if self._rates is not None else None,
            problem=problem,
            warning=self.context.publisher.problem(supervisor.pipeline.target.name),
            held_until=self._gearboxes.held_until(supervisor),
        )


def _services(graph: Graph, settings: Settings) -> tuple[str, ...]:
    """The local services to start: those requested, those that a delivery writes to, and those of change capture."""
    needed = [getattr(delivery.target, "needs", None) for delivery in graph.deliveries.values()]
    needed += capturing.needs(graph)
    found = dict.fromkeys([*settings.services, *(name for name in needed if name is not None)])
    return tuple(local_services(settings.model_copy(update={"services": tuple(found)})))
