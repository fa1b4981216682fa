"""A running app as plain data: the status of each pipeline, its details, and what is not ready yet."""

from __future__ import annotations

from typing import Any

from gearshift.freshness import Gear
from gearshift.pipelines.check.gears import Report
from gearshift.pipelines.supervisor import Supervisor
from gearshift.runner.rates import Figures


def pipeline_status(
    supervisor: Supervisor,
    figures: Figures | None,
    *,
    problem: str | None,
    warning: str | None,
    held_until: str | None,
    parallelism: int | None,
) -> dict[str, Any]:
    """The status of a pipeline; `problem` keeps it from running, whatever its own state is."""
    condition, ledger, pipeline = supervisor.condition, supervisor.ledger, supervisor.pipeline
    latest = condition.progress
    took = latest.took.total_seconds() if latest else 0
    return {
        "name": pipeline.name,
        "gear": str(supervisor.gear),
        "declared": str(pipeline.gear),
        "chosen_by": pipeline.chosen_by,
        "held_until": held_until,
        "parallelism": parallelism,
        "freshness": pipeline.promise,
        "freshness_seconds": pipeline.freshness.duration.total_seconds(),
        "state": "waiting for Kafka" if problem else condition.state,
        "error": problem or condition.error,
        "warning": warning,
        "records_per_second": figures.arriving if figures else None,
        "written_per_second": figures.writing if figures else None,
        "batch_records_per_second": round(latest.records / took, 1) if latest and took else None,
        "lag": figures.lag if figures else None,
        "latency_p50_ms": figures.latency_ms[0] if figures and figures.latency_ms else None,
        "latency_p99_ms": figures.latency_ms[1] if figures and figures.latency_ms else None,
        "records": max(sum(run.records for run in ledger.runs), figures.records if figures else 0),
        "written": max(sum(run.written for run in ledger.runs), figures.written if figures else 0),
        "dead_letters": sum(run.dead + run.invalid for run in ledger.runs),
        "dead_letters_pending": ledger.letters["pending"],
        "dead_letters_lost": ledger.letters["lost"],
        "replayed": ledger.replayed,
        "late_rows": supervisor.late_rows,
        "gap": ledger.gap,
        "restarts": condition.restarts,
        "intervals_in_progress": [each.start.isoformat() for each in supervisor.intervals_in_progress],
        "next_run": condition.next_run.isoformat()
        if supervisor.gear is Gear.BATCH and condition.next_run
        else None,
    }


def pipeline_details(supervisor: Supervisor, report: Report) -> dict[str, Any]:
    """What one page shows of a pipeline in addition to its status."""
    latest, at = supervisor.condition.progress, supervisor.pipeline.defined_at
    return {
        "name": supervisor.pipeline.name,
        "gears": {
            str(gear): {
                "ok": verdict.ok,
                "refusals": [
                    {
                        "what": refusal.what,
                        "operator": refusal.operator,
                        "rewrite": refusal.rewrite,
                        "file": refusal.at.file,
                        "line": refusal.at.line,
                    }
                    for refusal in verdict.refusals
                ],
            }
            for gear, verdict in report.verdicts.items()
        },
        "ledger": supervisor.ledger.as_json(),
        "plan": report.plan(),
        "durations_ms": latest.durations_ms if latest else None,
        "state": {"rows": latest.state_rows, "bytes": latest.state_bytes} if latest else None,
        "watermark": latest.watermark if latest else None,
        "source": {"file": at.file, "line": at.line},
    }


def waiting_for(status: dict[str, Any]) -> list[str]:
    """What does not work yet or no longer, in words.

    >>> waiting_for({"pipelines": [{"name": "copy", "state": "failed"}, {"name": "bill", "state": "waiting"}]})
    ['copy: failed']
    """
    working = ("running", "waiting")
    named = [
        (each["name"], each["state"])
        for kind in ("pipelines", "deliveries")
        for each in status.get(kind, ())
        if each["state"] not in working
    ]
    named += [
        (each["name"], each.get("state") or "not running")
        for kind in ("captures", "sources")
        for each in status.get(kind, ())
        if not each["running"] and (kind == "captures" or each.get("error"))
    ]
    return [f"{name}: {state}" for name, state in named]
