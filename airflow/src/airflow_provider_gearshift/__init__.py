"""Run Gearshift's batch pipelines from Apache Airflow."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_gearshift.dag import gearshift_dag
    from airflow_provider_gearshift.hooks import GearshiftHook
    from airflow_provider_gearshift.operators import GearshiftBatchOperator
    from airflow_provider_gearshift.sensors import GearshiftFreshnessSensor
    from airflow_provider_gearshift.timetables import GearshiftTimetable
    from airflow_provider_gearshift.triggers import GearshiftRunTrigger

__version__ = "0.1.0"
__all__ = [
    "GearshiftBatchOperator",
    "GearshiftFreshnessSensor",
    "GearshiftHook",
    "GearshiftRunTrigger",
    "GearshiftTimetable",
    "gearshift_dag",
    "get_provider_info",
]

_MODULES = {
    "GearshiftBatchOperator": "operators",
    "GearshiftFreshnessSensor": "sensors",
    "GearshiftHook": "hooks",
    "GearshiftRunTrigger": "triggers",
    "GearshiftTimetable": "timetables",
    "gearshift_dag": "dag",
}


def __getattr__(name: str) -> Any:
    # Airflow imports every provider at every start to read its metadata, so this import must be cheap.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata for Airflow."""
    named = {"integration-name": "Gearshift"}
    return {
        "package-name": "airflow-provider-gearshift",
        "name": "Gearshift",
        "description": "Runs the batch pipelines of Gearshift apps and waits for fresh results.",
        "versions": [__version__],
        "integrations": [{**named, "external-doc-url": "", "tags": ["software"]}],
        "operators": [{**named, "python-modules": [f"{__name__}.operators"]}],
        "sensors": [{**named, "python-modules": [f"{__name__}.sensors"]}],
        "triggers": [{**named, "python-modules": [f"{__name__}.triggers"]}],
        "hooks": [{**named, "python-modules": [f"{__name__}.hooks"]}],
        "connection-types": [
            {
                "connection-type": "gearshift",
                "hook-class-name": f"{__name__}.hooks.GearshiftHook",
                "hook-name": "Gearshift",
            }
        ],
    }
