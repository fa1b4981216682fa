"""The Spark jobs of one pipeline: whether their tasks run, waiting for them, cancelling them and no others."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_TASKS_END_WITHIN = 10.0
_REPORTED_WITHIN = 1.0
_LATEST_JOBS = 100


class Tasks:
    """What one pipeline has running in the session that all pipelines of an app share."""

    def __init__(self, spark: SparkSession, pipeline: str) -> None:
        self._context = spark.sparkContext
        self._pipeline = pipeline
        self._tag = f"gearshift-{pipeline}"
        self._before = -1

    @contextmanager
    def tagged(self) -> Generator[None]:
        """Mark the jobs that this thread starts as this pipeline's; those of a streaming query are known by its run."""
        self._before = next((job.jobId() for job in self._latest()), -1)
        self._context.addJobTag(self._tag)
        try:
            yield
        finally:
            self._context.removeJobTag(self._tag)

    def cancel(self) -> None:
        """Cancel the tagged jobs."""
        self._context.cancelJobsWithTag(self._tag)

    def hold_their_slots(self, run_id: str) -> bool:
        """Whether all of the query's tasks run: a real-time query computes only then."""
        jobs = [stages for stages in self._stages(run_id) if stages]
        return any(
            all(stage and stage.numActiveTasks == stage.numTasks for stage in stages) for stages in jobs
        )

    def await_end(self, run_id: str) -> None:
        """Wait for the tasks of a stopped query: Spark kills them, and until they notice they go on writing."""
        until = time.monotonic() + _TASKS_END_WITHIN
        while any(stage and stage.numActiveTasks for stages in self._stages(run_id) for stage in stages):
            if time.monotonic() > until:
                log.warning("%s: tasks of the stopped query still run", self._pipeline)
                return
            time.sleep(0.01)

    def count_failed(self, batch: str | None = None) -> int:
        """How many attempts of tasks failed, and so were made again, in a batch of a query or in the tagged jobs.

        A batch is known by the end of the description that Spark gives its jobs.

        Spark's status store has the jobs, the newest first; a listener would be called for every task.
        """
        deadline = time.monotonic() + _REPORTED_WITHIN
        while True:
            jobs = list(self._jobs(batch))
            # The store hears of the end of a job when everybody else does, not before.
            if all(job.status().toString() != "RUNNING" for job in jobs) or time.monotonic() > deadline:
                return sum(job.numFailedTasks() + job.numKilledTasks() for job in jobs)
            time.sleep(0.02)

    def _jobs(self, batch: str | None) -> Generator[Any]:
        found = False
        for job in self._latest():
            if batch is None:
                if job.jobId() <= self._before:
                    return
                ours = self._tag in job.jobTags().mkString(" ").split()
            else:
                ours = job.description().toString().endswith(f"{batch})")  # of an Option
                if found and not ours:
                    return
            found = found or ours
            if ours:
                yield job

    def _latest(self) -> Generator[Any]:
        java: Any = self._context._jsc  # pyright: ignore[reportPrivateUsage]
        jobs = java.sc().statusStore().jobsList(None)
        for number in range(min(jobs.size(), _LATEST_JOBS)):
            yield jobs.apply(number)

    def _stages(self, run_id: str) -> list[list[Any]]:
        """Of a query's latest jobs, what is known of their stages."""
        tracker: Any = self._context.statusTracker()
        latest = sorted(tracker.getJobIdsForGroup(run_id))[-3:]  # a long-lived query has had a thousand
        jobs = [tracker.getJobInfo(job) for job in latest]
        return [[tracker.getStageInfo(stage) for stage in job.stageIds] for job in jobs if job]
