"""The runner: everything an app declares, running, in one process."""

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
from gearshift.definitions import Graph
from gearshift.errors import DefinitionError, GearshiftError
from gearshift.freshness import Gear
from gearshift.pipelines.checks import Checker, Report
from gearshift.pipelines.driver import Driver
from gearshift.pipelines.ending import Endings
from gearshift.pipelines.engine import Engine
from gearshift.pipelines.java_threads import leave_java
from gearshift.pipelines.listener import Progress, listen
from gearshift.pipelines.session import open_session
from gearshift.pipelines.shift import Shifted, shift
from gearshift.runner import captures as capturing
from gearshift.runner.alone import take_the_folder
from gearshift.runner.control import Control, Emit
from gearshift.runner.crew import Crew, start_crews
from gearshift.runner.maintenance import Maintenance
from gearshift.runner.note import Note
from gearshift.runner.offline import without_kafka
from gearshift.runner.rates import Rates
from gearshift.runner.sources import KeptSource, Source
from gearshift.schemas import Registry
from gearshift.settings import Settings
from gearshift.sources import Files, Http, Simulator
from gearshift.sources.cdc import Capture
from gearshift.stack.artifacts import jars
from gearshift.stack.processes import Pid
from gearshift.stack.revival import Revival
from gearshift.stack.stores import wanted
from gearshift.topics import Admin, DeadLetters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_ASSIGNED_WITHIN = 30.0
_STARTS_AT_ONCE = 4


def _silent(_: str) -> None: ...


class Runner:
    """A running app; leaving it stops everything in reverse, and nothing is left behind."""

    def __init__(
        self, app: App, settings: Settings, *, file: Path | None = None, said: Callable[[str], None] = _silent
    ) -> None:
        self.graph = app.graph
        self.settings = settings.model_copy(update={"services": _services(app.graph, settings)})
        self.drivers: dict[str, Driver] = {}
        self.sources: dict[str, KeptSource] = {}
        self.crews: dict[str, Crew] = {}
        self.captures: dict[str, Capture] = {}
        self._file = file
        self._said = said
        self._exit = ExitStack()
        self._began = datetime.now(UTC)
        self._rates: Rates | None = None
        self._port = 0

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._exit.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_drivers()
        self._exit.close()

    def shift(
        self,
        pipeline: str,
        gear: Gear,
        *,
        now: bool = False,
        on_step: Callable[[str, str], None] = lambda _step, _words: None,
    ) -> Shifted:
        """Bring a pipeline into a gear."""
        if pipeline not in self.drivers:
            raise DefinitionError(
                f"no pipeline {pipeline!r}", hint=f"there are {', '.join(self.drivers)}", app=self.graph.app
            )
        return shift(self.drivers[pipeline], gear, self._checker, now=now, on_step=on_step)

    def status(self) -> dict[str, Any]:
        """How everything is, as plain data."""
        return {
            "app": self.graph.app,
            "file": str(self._file) if self._file else None,
            "pid": os.getpid(),
            "since": self._began.isoformat(),
            "metrics": f"http://127.0.0.1:{self._port}/metrics",
            "bootstrap_servers": self.stack.bootstrap_servers,
            "registry_url": self.stack.registry_url,
            "pipelines": [self._pipeline_status(driver) for driver in self.drivers.values()],
            "deliveries": [crew.status() for crew in self.crews.values()],
            "captures": [capturing.describe(capture) for capture in self.captures.values()],
            "sources": [source.status() for source in self.sources.values()],
        }

    def _at_exit(self, close: Callable[[], None]) -> None:
        """Close it when we end; what fails to close must not keep the rest open."""

        def quietly() -> None:
            try:
                close()
            except Exception:
                log.warning("not closed cleanly: %s", close, exc_info=True)

        self._exit.callback(quietly)

    def _open(self) -> None:
        self._exit.enter_context(take_the_folder(self.settings.home, said=self._said))
        with ThreadPoolExecutor(1) as pool:
            spark_jars = jars("spark", cache=self.settings.cache)
            self._said("starting Spark")
            opening = pool.submit(
                open_session,
                self.graph,
                self.settings,
                spark_jars,
                log_file=self.settings.home.absolute() / "logs" / "spark.log",
            )
            # Planning needs Spark alone, and so is done by the time the slowest service answers.
            checking = pool.submit(self._plan, opening)
            try:
                self.stack = self._exit.enter_context(local.up(self.settings, progress=self._said))
                self.revival = self._exit.enter_context(Revival(self.stack, said=self._said))
                connection = self.stack.connection
                admin = self._exit.enter_context(Admin(connection))
                registry = self._exit.enter_context(Registry(connection))
                self._make_topics(admin, registry)
            except BaseException:
                checking.cancel()
                raise
            finally:
                self.spark = opening.result()
                self._at_exit(self.spark.stop)
            reports = checking.result()
        self.engine = Engine(
            spark=self.spark,
            connection=connection,
            settings=self.settings,
            graph=self.graph,
            admin=admin,
            endings=Endings(self.spark),
        )
        self._at_exit(self.engine.publisher.close)
        letters = self._exit.enter_context(DeadLetters(connection))
        self._checker = Checker(self.engine)
        self._checker.reports = dict(reports)
        for name, pipeline in self.graph.pipelines.items():
            self.drivers[name] = Driver(self.engine, pipeline, registry, letters)
            self._at_exit(self.drivers[name].books.close)
        self._checker.drivers = self.drivers.values
        self._check(reports)
        listen(self.spark, self._on_progress)
        self._answer()
        self.captures = capturing.start_captures(
            self.graph, connection, self.settings, said=self._said, at_exit=self._at_exit
        )
        topics = (topic.name for topic in capturing.topics_of(self.graph))
        self._rates = Rates(self.engine, self.drivers.values(), topics)
        self._exit.callback(self._rates.close)
        self._rates.open()
        self._open_drivers()
        self._exit.enter_context(Maintenance(self.graph, self.settings))
        self.crews = start_crews(
            self.graph, connection, self.settings, file=self._file, said=self._said, at_exit=self._at_exit
        )
        if self.graph.sources or self.graph.folders or self.graph.ports:
            self._await_readers()
        self._open_sources(connection)

    def _make_topics(self, admin: Admin, registry: Registry) -> None:
        self._said("creating topics and registering schemas")
        admin.ensure(capturing.topics_of(self.graph))
        for topic in self.graph.topics.values():
            if topic.envelope is None:  # what is in an envelope, its connector registers
                registry.register(topic)

    def _plan(self, opening: Future[SparkSession]) -> dict[str, Report]:
        """What Spark would do with each pipeline; refuses what it could not run in any gear."""
        spark = opening.result()
        self._said("checking pipelines")
        with without_kafka(spark, self.settings, self.graph) as engine:
            checker = Checker(engine)
            return {name: checker.report(pipeline) for name, pipeline in self.graph.pipelines.items()}

    def _open_drivers(self) -> None:
        """Start the pipelines side by side: Spark plans each of them in one thread."""
        with ThreadPoolExecutor(_STARTS_AT_ONCE) as pool:
            opening: list[Future[None]] = []
            for driver in self.drivers.values():
                self._said(f"starting {driver.pipeline.name} in {driver.gear}")
                self._at_exit(driver.close)
                opening.append(pool.submit(driver.open))
            try:
                for opened in opening:
                    opened.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _close_drivers(self) -> None:
        """End the pipelines side by side, before anything that they need: each waits for the end of its batch."""
        with ThreadPoolExecutor(max(1, len(self.drivers))) as pool:
            for driver, closing in [(each, pool.submit(each.close)) for each in self.drivers.values()]:
                if error := closing.exception():
                    log.warning("%s: not closed cleanly: %s", driver.pipeline.name, error)

    def _open_sources(self, connection: Connection) -> None:
        makers: dict[str, Callable[[], Source]] = {
            **{
                name: lambda source=source: Simulator(source, connection)
                for name, source in self.graph.sources.items()
            },
            **{
                name: lambda source=source: Files(source, connection)
                for name, source in self.graph.folders.items()
            },
            **{
                name: lambda source=source: Http(source, connection)
                for name, source in self.graph.ports.items()
            },
        }
        self.sources = {name: KeptSource(name, make) for name, make in makers.items()}
        for source in self.sources.values():
            self._at_exit(source.close)
            source.open()

    def _await_readers(self) -> None:
        """Let pipelines and deliveries take their places before simulated records come: none is then old at once."""
        for driver in self.drivers.values():
            if driver.stretch is not None and driver.gear is not Gear.BATCH:
                try:
                    driver.await_working()
                except GearshiftError as error:
                    log.warning("%s", error)  # the driver itself starts it again
        for crew in self.crews.values():
            crew.await_assignment(_ASSIGNED_WITHIN)

    def _check(self, reports: dict[str, Report]) -> None:
        """Refuse, before anything starts, what could not run."""
        real_time: list[Report] = []
        for name, driver in self.drivers.items():
            report = reports[name]
            report.require(driver.gear)
            driver.books.ledger.require_checkpoint()
            self._checker.require_checkpoint(driver, driver.gear)
            driver.continuity.state = report.state
            if driver.gear is Gear.REAL_TIME:
                real_time.append(report)
        if real_time:
            self._checker.require_slots(real_time)

    def _answer(self) -> None:
        control = Control(self.status, self._shift_for, port=self.settings.metrics_port or 0)
        self._port = control.port
        pid = Pid.of(os.getpid())
        assert pid is not None
        Note(
            app=self.graph.app,
            file=str(self._file or ""),
            pid=pid,
            spark_pid=_java_pid(self.spark),
            port=control.port,
            token=control.token,
        ).leave(self.settings.home)
        self._exit.callback(Note.remove, self.settings.home)
        self._exit.callback(control.close)
        control.open()

    def _shift_for(self, pipeline: str, gear: str, now: bool, emit: Emit) -> None:
        try:
            done = self.shift(
                pipeline,
                Gear.named(gear),
                now=now,
                on_step=lambda step, words: emit({"step": step, "words": words}),
            )
        finally:
            leave_java()  # each request has a thread of its own
        emit({"shifted": asdict(done)})

    def _on_progress(self, progress: Progress) -> None:
        for driver in self.drivers.values():
            if progress.query == self.engine.query_name(driver.pipeline):
                driver.on_progress(progress)

    def _pipeline_status(self, driver: Driver) -> dict[str, Any]:
        condition, ledger = driver.condition, driver.books.ledger
        figures = self._rates.figures.get(driver.pipeline.name) if self._rates is not None else None
        latest = condition.progress
        problem = self.revival.problem if driver.pipeline.topics and condition.state != "stopped" else None
        took = latest.took.total_seconds() if latest else 0
        return {
            "name": driver.pipeline.name,
            "gear": str(driver.gear),
            "declared": str(driver.pipeline.gear),
            "freshness": driver.pipeline.promise,
            "state": "waiting for Kafka" if problem else condition.state,
            "error": problem or condition.error,
            "warning": self.engine.publisher.problem(driver.pipeline.target.name),
            "records_per_second": figures.arriving if figures else None,
            "written_per_second": figures.writing if figures else None,
            "batch_records_per_second": round(latest.records / took, 1) if latest and took else None,
            "lag": figures.lag if figures else None,
            "latency_p50_ms": figures.latency_ms[0] if figures and figures.latency_ms else None,
            "latency_p99_ms": figures.latency_ms[1] if figures and figures.latency_ms else None,
            "records": max(
                sum(stretch.records for stretch in ledger.stretches), figures.records if figures else 0
            ),
            "written": max(
                sum(stretch.written for stretch in ledger.stretches), figures.written if figures else 0
            ),
            "dead_letters": sum(stretch.dead for stretch in ledger.stretches),
            "replayed": ledger.replayed,
            "late_rows": driver.late_rows,
            "gap": ledger.gap,
            "restarts": condition.restarts,
            "next_run": condition.next_run.isoformat()
            if driver.gear is Gear.BATCH and condition.next_run
            else None,
        }


def _services(graph: Graph, settings: Settings) -> tuple[str, ...]:
    """The local stores to start: those asked for, those that a delivery writes to, and what change capture needs."""
    needed = [getattr(delivery.target, "needs", None) for delivery in graph.deliveries.values()]
    needed += capturing.NEEDS if graph.captures else ()
    found = dict.fromkeys([*settings.services, *(name for name in needed if name is not None)])
    return tuple(wanted(settings.model_copy(update={"services": tuple(found)})))


def _java_pid(spark: SparkSession) -> Pid | None:
    jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    return Pid.of(jvm.java.lang.ProcessHandle.current().pid())
