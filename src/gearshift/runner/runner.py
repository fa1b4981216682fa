"""Runs an app: starts everything it declares in order, and stops it in reverse."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
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
from gearshift.errors import RunnerError
from gearshift.freshness import Gear
from gearshift.gearbox.measurements import Limits
from gearshift.pipelines.check.gears import Checker, Report
from gearshift.pipelines.context import Context, Kafka
from gearshift.pipelines.listener import listen
from gearshift.pipelines.parallelism import largest
from gearshift.pipelines.scaling import Scaled
from gearshift.pipelines.shift import Shifted
from gearshift.pipelines.stopping import Endings
from gearshift.pipelines.supervisor import Supervisor
from gearshift.pipelines.warm_up import warm_up
from gearshift.runner import captures as capturing
from gearshift.runner.deliveries.consumer_group import ConsumerGroup, start_consumer_groups
from gearshift.runner.describing import waiting_for
from gearshift.runner.maintenance import Maintenance
from gearshift.runner.notifying import Notifier
from gearshift.runner.pipelines import Pipelines
from gearshift.runner.reaching import require_reachable
from gearshift.runner.registering import grant_rules, make_topics
from gearshift.runner.serving import announce, make_console
from gearshift.runner.single_runner import lock_home
from gearshift.runner.sources import SupervisedSource, sources_of
from gearshift.runner.standby import require_stack
from gearshift.runner.supervisors import await_readers
from gearshift.schemas import Registry
from gearshift.settings import Settings
from gearshift.sources.cdc.capture import Capture
from gearshift.spark.fence import Fence
from gearshift.spark.masters import require_shared_kafka
from gearshift.spark.private import java_pid
from gearshift.spark.session import jars_for, open_session
from gearshift.stack.processes.restarts import ServiceSupervisor
from gearshift.stack.processes.service import Pid
from gearshift.stack.services.optional import local_services
from gearshift.storage.folders import open_folder
from gearshift.storage.lease import StandBy, take
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
        standby: bool = False,
        limits: Limits | None = None,
        progress: Callable[[str], None] = _silent,
    ) -> None:
        self.app = app
        self.graph = app.graph
        self.settings = settings.model_copy(update={"services": _services(app.graph, settings)})
        self.sources: dict[str, SupervisedSource] = {}
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        self.captures: dict[str, Capture] = {}
        self._file = file
        self._progress = progress
        self._exit = ExitStack()
        self._began = datetime.now(UTC)
        self._read_only = read_only
        self._limits = limits or Limits()
        self._standby = standby
        self._waits_for: str | None = None
        self._created: Pipelines | None = None
        self._is_started = False

    @property
    def page(self) -> str:
        """The address of the console's page."""
        return self._console.page

    @property
    def pipelines(self) -> Pipelines:
        """The pipelines; RunnerError before they are created."""
        if self._created is None:
            raise RunnerError(self._waits_for or "the app starts", hint="try again once it runs")
        return self._created

    @property
    def supervisors(self) -> dict[str, Supervisor]:
        """The supervisor of each pipeline; none before they are created."""
        return self._created.supervisors if self._created is not None else {}

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
        self.pipelines.close()
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
        return self.pipelines.shift(pipeline, gear, now=now, hold=hold, on_step=on_step)

    def scale(
        self,
        pipeline: str,
        partitions: int,
        *,
        on_step: Callable[[str, str], None] = lambda _step, _message: None,
    ) -> Scaled:
        """Move a pipeline's state to another number of shuffle partitions."""
        return self.pipelines.scale(pipeline, partitions, on_step=on_step)

    def why(self, pipeline: str) -> dict[str, Any]:
        """Why a pipeline is in its gear, what would change it, and the numbers behind it."""
        return self.pipelines.why(pipeline)

    def status(self) -> dict[str, Any]:
        """The status of everything, as plain data."""
        return {
            "app": self.graph.app,
            "file": str(self._file) if self._file else None,
            "pid": os.getpid(),
            "since": self._began.isoformat(),
            "standing_by": self._waits_for,
            "console": self._console.url,
            "metrics": f"{self._console.url}/metrics",
            "bootstrap_servers": self.stack.bootstrap_servers,
            "registry_url": self.stack.registry_url,
            "pipelines": self._created.status() if self._created else [],
            "deliveries": [group.status() for group in self.consumer_groups.values()],
            "captures": [capturing.describe(capture) for capture in self.captures.values()],
            "sources": [source.status() for source in self.sources.values()],
            "topics": self._created.rates.topics() if self._created else [],
        }

    # start, in this order; each step registers how it is stopped

    def _start(self) -> None:
        require_shared_kafka(self.graph, self.settings)
        if self._standby:
            require_stack(self.settings)
        else:
            self._take_home()
        require_reachable(self.settings)
        with ThreadPoolExecutor(1) as pool:
            spark = self._start_spark(pool)
            # Planning needs only Spark, so it is finished by the time the slowest service is ready.
            planning = pool.submit(self._plan, spark)
            try:
                if not self._standby:
                    self._take_lease()
                connection, admin, registry = self._start_stack()
                self._create_topics(admin, registry)
            except BaseException:
                planning.cancel()
                raise
            finally:
                self.spark = spark.result()
                self._at_exit(self.spark.stop)
            reports = planning.result()
        if self._standby:
            self._stand_by(Kafka(connection=connection, admin=admin))
        self._fence = Fence(self.spark, self._lease)
        self._at_exit(self._fence.close)
        self._create_pipelines(connection, admin, registry, reports)
        listen(self.spark, self.pipelines.on_progress)
        if not self._standby:
            self._start_console(connection)
        self._announce()
        self._start_captures(connection)
        self._exit.callback(self.pipelines.rates.close)
        self.pipelines.rates.open()
        self.pipelines.open(progress=self._progress, at_exit=self._at_exit)
        self._exit.enter_context(Maintenance(self.graph, self.settings))
        self._start_deliveries(connection)
        self._start_sources(connection)
        self.pipelines.open_gearboxes()
        self._is_started = True

    def _take_home(self, stand_by: StandBy | None = None) -> None:
        home, app = self.settings.home, self.graph.app
        self._exit.enter_context(lock_home(home, progress=self._progress, app=app, stand_by=stand_by))

    def _take_lease(self, stand_by: StandBy | None = None) -> None:
        folder = open_folder(f"{self.settings.checkpoints_uri}/{self.graph.app}")
        self._lease = take(folder, home=self.settings.home, stand_by=stand_by)
        self._at_exit(self._lease.release)

    def _stand_by(self, kafka: Kafka) -> None:
        """Wait with everything ready that needs no lease, until no other runner has the app."""

        def wait(held: str) -> None:
            self._waits_for = f"standing by: {held}"
            self._progress(self._waits_for)

        warm_up(Context(spark=self.spark, settings=self.settings, graph=self.graph, kafka=kafka))
        self._start_console(kafka.connection)
        self._take_home(wait)
        self._take_lease(wait)
        if self._waits_for is not None:
            self._progress("taking over")
            self._waits_for = None

    def _start_spark(self, pool: ThreadPoolExecutor) -> Future[SparkSession]:
        spark_jars = jars_for(self.settings)
        self._progress("starting Spark")
        log_file = self.settings.home.absolute() / "logs" / "spark.log"
        counts = largest(self.graph, self.settings)
        return pool.submit(
            open_session, self.graph, self.settings, spark_jars, log_file=log_file, parallelism=counts
        )

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

    def _create_pipelines(
        self, connection: Connection, admin: Admin, registry: Registry, reports: dict[str, Report]
    ) -> None:
        self.context = Context(
            spark=self.spark,
            settings=self.settings,
            graph=self.graph,
            kafka=Kafka(connection=connection, admin=admin),
            endings=Endings(self.spark),
            lease=self._lease,
        )
        self._at_exit(self.context.publisher.close)
        letters = self._exit.enter_context(DeadLetters(connection))
        self._created = Pipelines(
            self.context,
            registry,
            letters,
            reports,
            self._limits,
            topics=(topic.name for topic in capturing.topics_of(self.graph)),
            problem=lambda: self.service_supervisor.problem,
            at_exit=self._at_exit,
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
        )
        self._at_exit(notifier.close)
        self._exit.callback(self._console.close)
        notifier.open()
        self._console.open()

    def _announce(self) -> None:
        spark = Pid.of(java_pid(self.spark))
        announce(self._console, self.graph.app, self.settings, file=self._file, spark=spark)
        self._exit.callback(RunnerInfo.remove, self.settings.home)

    def _start_captures(self, connection: Connection) -> None:
        self.captures = capturing.start_captures(
            self.graph, connection, self.settings, progress=self._progress, at_exit=self._at_exit
        )

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
        self.pipelines.shift_for(pipeline, gear, now, emit, hold)

    def scale_for(self, pipeline: str, partitions: int, emit: Emit) -> None:
        """Scale a pipeline, and emit each step and the result."""
        self.pipelines.scale_for(pipeline, partitions, emit)

    def details(self, pipeline: str) -> dict[str, Any]:
        """A pipeline's status, gears, ledger, plan, state and latest batch, as plain data."""
        return self.pipelines.details(pipeline)

    def waiting_for(self) -> list[str]:
        """What is not ready yet."""
        if not self._is_started:
            return [self._waits_for or "the app starts"]
        return waiting_for(self.status())

    def require_working(self) -> None:
        """Raise if this runner must write nothing more, or cannot."""
        self._lease.require()
        self._fence.require()

    def run_interval(self, pipeline: str, start: datetime) -> dict[str, Any]:
        """Run one interval of a pipeline next; returns which."""
        return self.pipelines.run_interval(pipeline, start)


def _services(graph: Graph, settings: Settings) -> tuple[str, ...]:
    """The local services to start: those requested, those that a delivery writes to, and those of change capture."""
    needed = [getattr(delivery.target, "needs", None) for delivery in graph.deliveries.values()]
    needed += capturing.needs(graph)
    found = dict.fromkeys([*settings.services, *(name for name in needed if name is not None)])
    return tuple(local_services(settings.model_copy(update={"services": tuple(found)})))
