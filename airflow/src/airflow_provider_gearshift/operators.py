"""Run one interval of a pipeline."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from airflow_provider_gearshift.calendars import Calendar, parse
from airflow_provider_gearshift.hooks import GearshiftHook
from airflow_provider_gearshift.run import Run
from airflow_provider_gearshift.triggers import GearshiftRunTrigger, log_output, outcome

if TYPE_CHECKING:
    from airflow.sdk import Context

_USAGE_ERROR = 2


class GearshiftBatchOperator(BaseOperator):
    """Run `gearshift batch run FILE PIPELINE` for the interval of a DAG run; a rerun replaces the result.

    :param file: The app's file, relative to `folder` if set.
    :param pipeline: The pipeline's name.
    :param interval_start: The interval's start in ISO 8601. Default: the data interval of the DAG run, or if that is
        empty, as with `schedule="@daily"`, the pipeline's last interval that had ended by then.
    :param interval_end: The interval's end.
    :param calendar: The pipeline's calendar, such as `1 month`, if the DAG also runs at other times: the task then runs
        when one of its intervals has just ended, and is skipped otherwise.
    :param timezone: The app's time zone, for the calendar.
    :param command: Gearshift's command; see `GearshiftHook` for the defaults.
    :param folder: The working folder, with `gearshift.toml`. Default: the folder of the file.
    :param env: Additional environment variables; keep secrets in the connection.
    :param gearshift_conn_id: A connection with command, folder and environment.
    :param deferrable: Free the worker slot while the command runs. The command runs detached on the worker's machine,
        so worker and triggerer must share that machine, or at least the `state_folder`.
    :param state_folder: Where the output of active runs is stored. Default: `gearshift` in AIRFLOW_HOME.
    """

    template_fields: Collection[str] = (
        "file",
        "pipeline",
        "interval_start",
        "interval_end",
        "command",
        "folder",
    )
    ui_color = "#d9ead3"

    def __init__(
        self,
        *,
        file: str | os.PathLike[str],
        pipeline: str,
        interval_start: str | None = None,
        interval_end: str | None = None,
        calendar: str | None = None,
        timezone: str = "UTC",
        command: str | None = None,
        folder: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        gearshift_conn_id: str | None = None,
        deferrable: bool = True,
        state_folder: str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.file = os.fspath(file)
        self.pipeline = pipeline
        self.interval_start = interval_start
        self.interval_end = interval_end
        self.calendar = calendar
        self.timezone = timezone
        self.command = command
        self.folder = os.fspath(folder) if folder is not None else None
        self.env = dict(env) if env is not None else None
        self.gearshift_conn_id = gearshift_conn_id
        self.deferrable = deferrable
        self.state_folder = os.fspath(state_folder) if state_folder is not None else None
        self._run: Run | None = None
        if (interval_start is None) != (interval_end is None):
            raise AirflowException(f"{self.task_id}: set both interval_start and interval_end, or neither")

    def execute(self, context: Context) -> Any:
        """Start the run, then follow it here or in the triggerer."""
        hook = GearshiftHook(
            file=self.file,
            command=self.command,
            folder=self.folder,
            env=self.env,
            gearshift_conn_id=self.gearshift_conn_id,
        )
        start, end = self._interval(context, hook)
        words = [*hook.words, "batch", "run", str(hook.file), self.pipeline]
        words += ["--from", start, "--to", end, "-o", "json"]
        self.log.info("%s in %s", " ".join(words), hook.folder)
        run = self._run = Run.start(self._folder_for(context), words, cwd=hook.folder, env=hook.env)
        if self.deferrable:
            limit: timedelta | None = self.execution_timeout
            deadline = (datetime.now(UTC) + limit).timestamp() if limit else None
            self.defer(
                trigger=GearshiftRunTrigger(folder=str(run.folder), deadline=deadline),
                method_name="execute_complete",
            )
        while not run.is_over:
            log_output(self.log, run)
            time.sleep(0.2)
        log_output(self.log, run)
        run.kill()
        return self._result(outcome(run))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Finish the task with the triggerer's event."""
        if "error" in event:
            raise AirflowException(event["error"])
        if event["timed_out"]:
            Run(Path(event["folder"])).forget()
            raise AirflowException(f"stopped after the execution_timeout of {self.execution_timeout}")
        return self._result(event)

    def on_kill(self) -> None:
        """Stop the run when the task is killed; its keeper does so even if this process exits first."""
        if self._run is not None:
            self._run.request_stop()

    def _result(self, ended: dict[str, Any]) -> list[dict[str, Any]]:
        """The intervals that were run, as reported by Gearshift."""
        Run(Path(ended["folder"])).forget()
        code, words = ended["exit"], ended["words"]
        if code is None:
            raise AirflowException(
                "gearshift and its keeper were killed; check whether the machine ran out of memory"
            )
        if code < 0:
            raise AirflowException(f"gearshift was terminated by signal {-code}")
        if code == _USAGE_ERROR:
            raise AirflowFailException(words)  # a retry would fail the same way
        if code != 0:
            raise AirflowException(words or f"gearshift exited with code {code}")
        for each in ended["data"]:
            self.log.info(
                "%s to %s: %s rows in %s s", *(each.get(name) for name in ("start", "end", "rows", "seconds"))
            )
        return ended["data"]

    def _interval(self, context: Context, hook: GearshiftHook) -> tuple[str, str]:
        """The interval's start and end, as arguments of the command."""
        if self.interval_start is not None and self.interval_end is not None:
            return self.interval_start, self.interval_end
        dag_run = context["dag_run"]  # pyright: ignore[reportTypedDictNotRequiredAccess]  (a task that runs has one)
        start, end = dag_run.data_interval_start, dag_run.data_interval_end
        if self.calendar is None and start is not None and end is not None and start < end:
            return start.isoformat(), end.isoformat()
        until = datetime.fromtimestamp((end or dag_run.run_after).timestamp(), UTC)
        calendar, zone = self._calendar(hook)
        last = calendar.last_run(until, zone)
        if self.calendar is not None and end is not None and last != until:
            following = calendar.next_run(until, zone)
            raise AirflowSkipException(
                f"no interval of {self.pipeline} ({self.calendar}) ends at {until.isoformat()}; "
                f"the next ends at {following.isoformat()}"
            )
        return calendar.last_run(last - timedelta(microseconds=1), zone).isoformat(), last.isoformat()

    def _calendar(self, hook: GearshiftHook) -> tuple[Calendar, ZoneInfo]:
        """The given calendar, or the one that the app declares."""
        if self.calendar is not None:
            return parse(self.calendar), ZoneInfo(self.timezone)
        graph, pipeline = hook.pipeline(self.pipeline)
        if not pipeline.get("intervals"):
            raise AirflowFailException(
                f"pipeline {self.pipeline} of {hook.file} has no intervals: declare it with event_time="
            )
        return parse(pipeline["calendar"]), ZoneInfo(graph["timezone"])

    def _folder_for(self, context: Context) -> Path:
        """The folder of this attempt; stops what an earlier attempt left running, since two runs would conflict."""
        ti = context["ti"]  # pyright: ignore[reportTypedDictNotRequiredAccess]
        root = (
            self.state_folder or Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "gearshift"
        )
        names = [ti.dag_id, ti.run_id, ti.task_id, str(ti.map_index if ti.map_index is not None else -1)]
        task = Path(root, *(re.sub(r"[^A-Za-z0-9_.+-]", "_", name) for name in names))
        for left in task.glob("*"):
            self.log.info("stopping what an earlier attempt left in %s", left)
            Run(left).end()
            Run(left).forget()
        return task / str(ti.try_number)
