"""Tells Airflow of the timetable, which its scheduler reads back from the database."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_gearshift.timetables import GearshiftTimetable


class GearshiftPlugin(AirflowPlugin):
    """What a DAG needs of us outside of its tasks."""

    name = "gearshift"
    timetables = [GearshiftTimetable]  # noqa: RUF012  (Airflow's own way to say it)
