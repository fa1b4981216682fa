"""The supervisors of a running app, together: created, opened and closed in parallel."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from gearshift.errors import GearshiftError
from gearshift.freshness import Gear
from gearshift.pipelines.check.gears import Report
from gearshift.pipelines.context import Context
from gearshift.pipelines.supervisor import Supervisor
from gearshift.pipelines.verification import await_working
from gearshift.runner.deliveries.consumer_group import ConsumerGroup
from gearshift.schemas import Registry
from gearshift.topics import DeadLetters

log = logging.getLogger(__name__)

_ASSIGNED_WITHIN = 30.0
_PARALLEL_STARTS = 4
"""Spark plans each query in one thread."""


def create_supervisors(
    context: Context,
    registry: Registry,
    letters: DeadLetters,
    reports: Mapping[str, Report],
    *,
    at_exit: Callable[[Callable[[], None]], None],
) -> dict[str, Supervisor]:
    """A supervisor for each pipeline, in parallel: each reads its ledger, which may be on a remote store."""
    pipelines = context.graph.pipelines
    with ThreadPoolExecutor(max(1, len(pipelines))) as pool:
        creating = {
            name: pool.submit(Supervisor, context, pipeline, registry, letters, state=reports[name].state)
            for name, pipeline in pipelines.items()
        }
    created = {name: each.result() for name, each in creating.items() if each.exception() is None}
    for supervisor in created.values():
        at_exit(supervisor.recorder.close)
    for each in creating.values():
        each.result()  # raises what refused it, now that the others are known to be closed
    return created


def open_supervisors(
    supervisors: Mapping[str, Supervisor], chosen: Mapping[str, tuple[str, Mapping[str, float]]]
) -> None:
    """Start the pipelines; `chosen` has the reason and the measurements where a gearbox chose the gear."""
    with ThreadPoolExecutor(_PARALLEL_STARTS) as pool:
        opening: list[Future[None]] = []
        for name, supervisor in supervisors.items():
            why, numbers = chosen.get(name, ("run", {}))
            opening.append(pool.submit(supervisor.open, why, numbers))
        try:
            for opened in opening:
                opened.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def await_readers(supervisors: Iterable[Supervisor], groups: Iterable[ConsumerGroup]) -> None:
    """Wait until pipelines and deliveries read their topics, so that the first records are not old at once."""
    for supervisor in supervisors:
        if supervisor.run is not None and supervisor.gear is not Gear.BATCH:
            try:
                await_working(supervisor)
            except GearshiftError as error:
                log.warning("%s", error)  # the supervisor restarts it
    for group in groups:
        group.await_assignment(_ASSIGNED_WITHIN)


def close_supervisors(supervisors: Collection[Supervisor]) -> None:
    """Stop the pipelines before anything that they use: each waits for the end of its batch."""
    with ThreadPoolExecutor(max(1, len(supervisors))) as pool:
        for supervisor, closing in [(each, pool.submit(each.close)) for each in supervisors]:
            if error := closing.exception():
                log.warning("%s: not closed cleanly: %s", supervisor.pipeline.name, error)
