"""`gearshift check`: plans every pipeline with Spark; Kafka is needed only to check external topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gearshift import stack as local
from gearshift.app import App
from gearshift.console.problems import describe
from gearshift.definitions import Graph
from gearshift.errors import (
    BrokerUnreachableError,
    GearshiftError,
    RegistryUnreachableError,
    StackError,
)
from gearshift.pipelines.check.automatic import gears_of
from gearshift.pipelines.check.gears import Checker, Report, check_all
from gearshift.pipelines.context import Context
from gearshift.pipelines.parallelism import declared, difference, in_checkpoint
from gearshift.runner.registering import check_external
from gearshift.schemas import Registry
from gearshift.settings import Settings
from gearshift.spark.masters import require_shared_kafka
from gearshift.spark.session import jars_for, open_session
from gearshift.storage.reaching import require_all_reachable
from gearshift.topics import Admin


def check_app(
    app: App, settings: Settings, progress: Callable[[str], None] = lambda _: None
) -> list[dict[str, Any]]:
    """The gears that each pipeline supports, as plain data."""
    graph = app.graph
    require_shared_kafka(graph, settings)
    failures = _external_failures(graph, settings, progress)
    log_file = settings.home.absolute() / "logs" / "check.log"
    require_all_reachable(settings.checkpoints_uri, settings.warehouse_uri)
    spark_jars = jars_for(settings)
    spark = open_session(graph, settings, spark_jars, log_file=log_file, brief=True)
    try:
        pipelines = list(graph.pipelines.values())
        reports = check_all(Checker(Context(spark=spark, settings=settings, graph=graph)), pipelines)
    finally:
        spark.stop()
    found: list[dict[str, Any]] = []
    for pipeline, report in zip(pipelines, reports, strict=True):
        entry: dict[str, Any] = {
            "pipeline": pipeline.name,
            "declared": str(pipeline.gear),
            "chosen_by": pipeline.chosen_by,
            "freshness": pipeline.promise,
            "at": str(pipeline.defined_at),
            "error": None,
            "parallelism": None,
            "warnings": [],
            "gears": {},
        }
        names = {each.name for each in (*pipeline.sources.values(), pipeline.target)}
        failed = next((error for name, error in failures.items() if name in names), None)
        if isinstance(report, GearshiftError):
            entry["error"] = describe(report)
        elif failed is not None:
            entry["error"] = describe(failed)
        elif (refused := _refused(report)) is not None:
            entry["error"] = describe(refused)
        else:
            entry |= _parallelism(report, graph, settings)
            entry["gears"] = {
                str(gear): {
                    "ok": verdict.ok,
                    "refusals": [
                        {"operator": r.operator, "what": r.what, "at": str(r.at), "rewrite": r.rewrite}
                        for r in verdict.refusals
                    ],
                }
                for gear, verdict in report.verdicts.items()
            }
        found.append(entry)
    reported = {each.name for pipeline in pipelines for each in (*pipeline.sources.values(), pipeline.target)}
    for name, error in failures.items():
        if name not in reported:
            raise error
    return found


def _parallelism(report: Report, graph: Graph, settings: Settings) -> dict[str, Any]:
    """The shuffle partitions of a pipeline with state, and what to do if it declares another number."""
    pipeline = report.pipeline
    if not report.state:
        unused = pipeline.parallelism is not None and not report.shuffles
        words = f"parallelism={pipeline.parallelism} has no effect: {pipeline.name} shuffles nothing"
        return {"warnings": [words] if unused else []}
    number = in_checkpoint(pipeline, graph, settings) or declared(pipeline, settings)
    differs = difference(pipeline, number)
    return {"parallelism": number, "warnings": [differs] if differs is not None else []}


def _refused(report: Report) -> GearshiftError | None:
    """Why a pipeline cannot run in the gears of its timetable, or in none that the gearbox may choose."""
    try:
        if report.pipeline.chosen_by is not None:
            gears_of(report)
    except GearshiftError as error:
        return error
    return None


def _external_failures(
    graph: Graph, settings: Settings, progress: Callable[[str], None]
) -> dict[str, GearshiftError]:
    """The errors of external topics, by topic name; none if Kafka or the registry is not reachable."""
    topics = [topic for topic in graph.topics.values() if topic.external]
    found: dict[str, GearshiftError] = {}
    if not topics:
        return found
    try:
        connection = local.connect(settings)
        with Admin(connection) as admin, Registry(connection) as registry:
            for topic in topics:
                try:
                    check_external(graph, topic, admin, registry)
                except (BrokerUnreachableError, RegistryUnreachableError):
                    raise
                except GearshiftError as error:
                    found[topic.name] = error
    except (StackError, BrokerUnreachableError, RegistryUnreachableError) as error:
        progress(f"external topics were not checked: {error.what}")
    return found
