"""`gearshift check`: Spark plans every pipeline; Kafka is not needed."""

from __future__ import annotations

from typing import Any

from gearshift.app import App
from gearshift.errors import GearshiftError
from gearshift.pipelines.checks import Checker, check_all
from gearshift.pipelines.session import open_session
from gearshift.runner.control import describe
from gearshift.runner.offline import without_kafka
from gearshift.settings import Settings
from gearshift.stack.artifacts import jars


def check_app(app: App, settings: Settings) -> list[dict[str, Any]]:
    """Each pipeline's gears, as plain data."""
    graph = app.graph
    log_file = settings.home.absolute() / "logs" / "check.log"
    spark_jars = jars("spark", cache=settings.cache)
    spark = open_session(graph, settings, spark_jars, log_file=log_file, brief=True)
    try:
        pipelines = list(graph.pipelines.values())
        with without_kafka(spark, settings, graph) as engine:
            reports = check_all(Checker(engine), pipelines)
    finally:
        spark.stop()
    found: list[dict[str, Any]] = []
    for pipeline, report in zip(pipelines, reports, strict=True):
        entry: dict[str, Any] = {
            "pipeline": pipeline.name,
            "declared": str(pipeline.gear),
            "freshness": pipeline.promise,
            "at": str(pipeline.defined_at),
            "error": None,
            "gears": {},
        }
        if isinstance(report, GearshiftError):
            entry["error"] = describe(report)
        else:
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
    return found
