"""Waits until a started query is seen to work."""

from __future__ import annotations

import time

from pyspark.sql.streaming.query import StreamingQuery

from gearshift.definitions import Topic
from gearshift.errors import QueryError
from gearshift.freshness import Gear
from gearshift.pipelines.supervisor import Supervisor

_SILENT_FOR = 2.0  # seconds a real-time query must run before silence counts as health
_WORKS_WITHIN = 60.0
_NO_SLOT = "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT"
_SLOT_FREE_WITHIN = 0.2


def await_working(supervisor: Supervisor) -> float:
    """Wait until the query that was just started computes; returns since when, or raises its failure.

    In real-time it computes once all its tasks run, in near-real-time once a batch is committed or there is nothing to
    do; a batch has run before `start` returns.
    """
    query = supervisor.query
    until = time.monotonic() + _WORKS_WITHIN
    while supervisor.gear is not Gear.BATCH and query is not None:
        if not query.isActive or time.monotonic() > until:
            failure = supervisor.failure_of(query) or QueryError(
                f"the query does not compute in {supervisor.gear} after {_WORKS_WITHIN:.0f} s",
                hint="see the Spark log for what it waits for",
                pipeline=supervisor.pipeline.name,
            )
            if supervisor.resume(query, failure):
                query = supervisor.query
                continue
            # The check has counted the slots: the missing ones are held by a batch of another pipeline.
            if supervisor.run is None or _NO_SLOT not in failure.what or time.monotonic() > until:
                raise failure
            time.sleep(_SLOT_FREE_WITHIN)
            query = supervisor.start_query(supervisor.run)
        if supervisor.condition.progress_of(query) is not None:
            break
        if supervisor.holds_slots(query) if supervisor.gear is Gear.REAL_TIME else _is_idle(query):
            break
        supervisor.condition.wait(0.02)
    return time.monotonic()


def verify(supervisor: Supervisor) -> float:
    """Wait until a started query is seen to work; returns since when.

    In real-time a first record must come out, or none for a while: what makes it fail shows at once.
    """
    before = _written(supervisor) if supervisor.gear is Gear.REAL_TIME else 0
    since = await_working(supervisor)
    query = supervisor.query
    while supervisor.gear is Gear.REAL_TIME and query is not None:
        if not query.isActive:
            failure = supervisor.failure_of(query) or QueryError(
                "the query ended immediately", pipeline=supervisor.pipeline.name
            )
            if not supervisor.resume(query, failure):
                raise failure
            query = supervisor.query
            continue
        if _written(supervisor) > before or time.monotonic() - since > _SILENT_FOR:
            break
        supervisor.condition.wait(0.05)
    return since


def _written(supervisor: Supervisor) -> int:
    target = supervisor.pipeline.target
    if not isinstance(target, Topic):
        return 0
    return sum(supervisor.context.admin.end_offsets([target.name]).values())


def _is_idle(query: StreamingQuery) -> bool:
    status = query.status
    return not status["isDataAvailable"] and not status["isTriggerActive"] and "Waiting" in status["message"]
