"""Register the timetable, which Airflow's scheduler deserializes from the database."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_gearshift.timetables import GearshiftTimetable


class GearshiftPlugin(AirflowPlugin):
    """The provider's plugin."""

    name = "gearshift"
    timetables = [GearshiftTimetable]  # noqa: RUF012  (as Airflow's API requires)
