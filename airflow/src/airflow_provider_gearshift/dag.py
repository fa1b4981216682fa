"""A DAG made of an app's own graph."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from airflow.sdk import DAG, TriggerRule
from airflow.sdk.exceptions import AirflowException

from airflow_provider_gearshift.hooks import GearshiftHook
from airflow_provider_gearshift.operators import GearshiftBatchOperator
from airflow_provider_gearshift.timetables import GearshiftTimetable

_LONGEST_LOOK = 20.0  # Airflow gives up on a DAG file after 30 seconds, without saying whose fault it was


def gearshift_dag(
    file: str | os.PathLike[str],
    *,
    start_date: datetime,
    dag_id: str | None = None,
    catchup: bool = True,
    command: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    gearshift_conn_id: str | None = None,
    deferrable: bool = True,
    state_folder: str | os.PathLike[str] | None = None,
    **dag_arguments: Any,
) -> DAG:
    """The DAG of an app: a task for each pipeline that has intervals, after those that write what it reads.

    The DAG runs whenever an interval of one of them has ended, in the app's time zone, from `start_date` (of that zone, if it names none) on; a task
    whose own interval did not end then is skipped. `catchup` makes up for all intervals since `start_date`.
    `dag_arguments` are those of Airflow's `DAG`, such as `default_args={"retries": 3}`. The file is read with
    `gearshift graph`, so changes to the app show when Airflow parses the DAG's file again; the connection is for
    tasks only, since Airflow asks for none while it parses.
    """
    hook = GearshiftHook(file=file, command=command, folder=folder, env=env)
    graph = hook.read("graph", str(hook.file), timeout=_LONGEST_LOOK)
    pipelines = {each["name"]: each for each in graph["pipelines"] if each.get("intervals")}
    if not pipelines:
        raise AirflowException(
            f"no pipeline of {hook.file} has intervals: declare one with freshness= and by="
        )
    _refuse_circles(pipelines, hook.file)
    # The one method that Airflow leaves abstract is for partitioned timetables.
    timetable = GearshiftTimetable(  # pyright: ignore[reportAbstractUsage]
        [each["calendar"] for each in pipelines.values()],
        graph["timezone"],
        max(each["intervals"]["grace_seconds"] for each in pipelines.values()),
    )
    # Intervals of one table are written one after the other: a run beside another would wait for it anyway.
    usual: dict[str, Any] = {"max_active_runs": 1, "description": f"The intervals of {hook.file}"}
    dag = DAG(
        dag_id=dag_id or graph["app"],
        schedule=timetable,
        start_date=start_date
        if start_date.tzinfo
        else start_date.replace(tzinfo=ZoneInfo(graph["timezone"])),
        catchup=catchup,
        **{**usual, **dag_arguments},
    )
    # The place that Airflow notes is where DAG() is called; people want to see where they called us.
    dag.fileloc = sys._getframe(1).f_code.co_filename  # pyright: ignore[reportPrivateUsage]
    tasks = {
        name: GearshiftBatchOperator(
            task_id=name,
            dag=dag,
            file=str(hook.file),
            pipeline=name,
            calendar=each["calendar"],
            timezone=graph["timezone"],
            command=command,
            folder=folder,
            env=env,
            gearshift_conn_id=gearshift_conn_id,
            deferrable=deferrable,
            state_folder=state_folder,
            # A pipeline whose interval did not end now is skipped; those after it may well have one.
            trigger_rule=TriggerRule.NONE_FAILED,
            doc_md=f"`{each['file']}:{each['line']}`: {each['calendar']} to {_words(each['target'])}",
        )
        for name, each in pipelines.items()
    }
    for name, each in pipelines.items():
        for before in each["after"]:
            if before in tasks:
                tasks[before].set_downstream(tasks[name])
    return dag


def _words(store: Mapping[str, str]) -> str:
    return " ".join(f"{kind} {name}" for kind, name in store.items())


def _refuse_circles(pipelines: Mapping[str, Any], file: Path) -> None:
    """Pipelines that feed each other in a circle have no order."""
    left = {
        name: {other for other in each["after"] if other in pipelines} for name, each in pipelines.items()
    }
    while ready := [name for name, before in left.items() if not before & left.keys()]:
        for name in ready:
            del left[name]
    if left:
        raise AirflowException(
            f"{', '.join(sorted(left))} in {file} read what the others of them write; in which order are they to run?"
        )
