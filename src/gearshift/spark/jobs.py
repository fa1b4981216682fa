"""The Spark jobs of one pipeline: their state, waiting for them and cancelling them."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.sql import SparkSession

from gearshift.spark.private import Py4JError, latest_jobs

log = logging.getLogger(__name__)

_TASKS_END_WITHIN = 10.0
_REPORTED_WITHIN = 1.0
_LATEST_JOBS = 100


class Tasks:
    """The jobs of one pipeline in the session that all pipelines of an app share."""

    def __init__(self, spark: SparkSession, pipeline: str) -> None:
        self._context = spark.sparkContext
        self._pipeline = pipeline
        self._tag = f"gearshift-{pipeline}"
        self._before = -1

    @contextmanager
    def tagged(self) -> Generator[None]:
        """Tag the jobs that this thread starts; those of a streaming query are found by its run id."""
        self._before = next((job.jobId() for job in latest_jobs(self._context, 1)), -1)
        self._context.addJobTag(self._tag)
        try:
            yield
        except BaseException:
            with suppress(Py4JError):
                self._await_tagged()
            raise
        finally:
            self._context.removeJobTag(self._tag)

    def _await_tagged(self) -> None:
        """Wait for the other tasks of a failed or cancelled job: until they notice, they keep writing."""
        until = time.monotonic() + _TASKS_END_WITHIN
        while any(job.numActiveTasks() for job in self._jobs(None)):
            if time.monotonic() > until:
                log.warning("%s: tasks of the failed batch are still running", self._pipeline)
                return
            time.sleep(0.01)

    def cancel(self) -> None:
        """Cancel the tagged jobs."""
        self._context.cancelJobsWithTag(self._tag)

    def hold_their_slots(self, run_id: str) -> bool:
        """Whether all of the query's tasks run: only then does a real-time query compute."""
        jobs = [stages for stages in self._stages(run_id) if stages]
        return any(
            all(stage and stage.numActiveTasks == stage.numTasks for stage in stages) for stages in jobs
        )

    def await_end(self, run_id: str) -> None:
        """Wait for the tasks of a stopped query: Spark kills them, and until they notice, they keep writing."""
        until = time.monotonic() + _TASKS_END_WITHIN
        while any(stage and stage.numActiveTasks for stages in self._stages(run_id) for stage in stages):
            if time.monotonic() > until:
                log.warning("%s: tasks of the stopped query are still running", self._pipeline)
                return
            time.sleep(0.01)

    def count_failed(self, batch: str | None = None) -> int:
        """The number of failed task attempts, which Spark retried, in a batch of a query or in the tagged jobs.

        A batch is identified by the end of the description of its jobs.

        The jobs come from Spark's status store; a listener would be called for every task.
        """
        deadline = time.monotonic() + _REPORTED_WITHIN
        while True:
            jobs = list(self._jobs(batch))
            # The status store learns of the end of a job asynchronously.
            if all(job.status().toString() != "RUNNING" for job in jobs) or time.monotonic() > deadline:
                return sum(job.numFailedTasks() + job.numKilledTasks() for job in jobs)
            time.sleep(0.02)

    def _jobs(self, batch: str | None) -> Generator[Any]:
        found = False
        for job in latest_jobs(self._context, _LATEST_JOBS):
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

    def _stages(self, run_id: str) -> list[list[Any]]:
        """The stages of a query's latest jobs."""
        tracker: Any = self._context.statusTracker()
        latest = sorted(tracker.getJobIdsForGroup(run_id))[-3:]  # a long-lived query has had a thousand
        jobs = [tracker.getJobInfo(job) for job in latest]
        return [[tracker.getStageInfo(stage) for stage in job.stageIds] for job in jobs if job]
