"""Build a DAG from an app's graph."""

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

_GRAPH_TIMEOUT = (
    20.0  # seconds; below Airflow's own import timeout of 30, whose error would not name the cause
)


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
    """Build the DAG of an app: one task per pipeline with intervals, downstream of the pipelines whose tables it reads.

    The DAG runs whenever an interval of any pipeline has ended, in the app's time zone, beginning at `start_date` (in
    that zone if it has none); a task whose own interval has not ended is skipped. `catchup` runs all intervals since
    `start_date`. `dag_arguments` are passed to Airflow's `DAG`, such as `default_args={"retries": 3}`. The app is
    read with `gearshift graph` each time Airflow parses the DAG file. The connection is for tasks only, since
    connections are not available during parsing.
    """
    hook = GearshiftHook(file=file, command=command, folder=folder, env=env)
    graph = hook.read("graph", str(hook.file), timeout=_GRAPH_TIMEOUT)
    pipelines = {each["name"]: each for each in graph["pipelines"] if each.get("intervals")}
    if not pipelines:
        raise AirflowException(
            f"no pipeline of {hook.file} has intervals: declare one with freshness= and event_time="
        )
    _reject_cycles(pipelines, hook.file)
    # The only abstract method left is for partitioned timetables.
    timetable = GearshiftTimetable(  # pyright: ignore[reportAbstractUsage]
        [each["calendar"] for each in pipelines.values()],
        graph["timezone"],
        max(each["intervals"]["grace_seconds"] for each in pipelines.values()),
    )
    # Intervals of one table are written one at a time, so parallel runs would only wait for each other.
    defaults: dict[str, Any] = {"max_active_runs": 1, "description": f"Intervals of {hook.file}"}
    dag = DAG(
        dag_id=dag_id or graph["app"],
        schedule=timetable,
        start_date=start_date
        if start_date.tzinfo
        else start_date.replace(tzinfo=ZoneInfo(graph["timezone"])),
        catchup=catchup,
        **{**defaults, **dag_arguments},
    )
    # Airflow records where DAG() is called, which is this file; show the user's DAG file instead.
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
            # A skipped pipeline must not skip the ones downstream, whose intervals may have ended.
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


def _reject_cycles(pipelines: Mapping[str, Any], file: Path) -> None:
    """Require an order of the pipelines: no cycle of writers and readers."""
    left = {
        name: {other for other in each["after"] if other in pipelines} for name, each in pipelines.items()
    }
    while ready := [name for name, before in left.items() if not before & left.keys()]:
        for name in ready:
            del left[name]
    if left:
        raise AirflowException(
            f"pipelines {', '.join(sorted(left))} in {file} form a cycle: each reads what another writes"
        )
