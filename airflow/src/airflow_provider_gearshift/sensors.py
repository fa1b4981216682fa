"""Wait until a pipeline's result is as fresh as declared."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_gearshift.freshness import Freshness, complete_until, wanted_until
from airflow_provider_gearshift.hooks import GearshiftHook

if TYPE_CHECKING:
    from airflow.sdk import Context


class GearshiftFreshnessSensor(BaseSensorOperator):
    """Wait until a pipeline, in any gear, keeps the freshness that its app declares.

    A pipeline with intervals does when the last interval that has ended was run; any other does when it is running
    without lag, or when its measured latency or the age of its last batch is within the freshness.

    :param file: The app's file, relative to `folder` if set.
    :param pipeline: The pipeline's name.
    :param max_age: The maximum age of the result, instead of the declared freshness.
    :param until: Up to when the result has to be complete, in ISO 8601, instead of the declared freshness; such as
        `{{ data_interval_end }}`.
    :param command: Gearshift's command, with `folder`, `env` and `gearshift_conn_id` as in `GearshiftBatchOperator`.

    Other arguments are those of every sensor. It pokes once a minute and frees the worker slot in between.
    """

    template_fields: Collection[str] = ("file", "pipeline", "until", "command", "folder")
    ui_color = "#d9ead3"

    def __init__(
        self,
        *,
        file: str | os.PathLike[str],
        pipeline: str,
        max_age: timedelta | None = None,
        until: str | None = None,
        command: str | None = None,
        folder: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        gearshift_conn_id: str | None = None,
        mode: str = "reschedule",
        **kwargs: Any,
    ) -> None:
        super().__init__(mode=mode, **kwargs)
        self.file = os.fspath(file)
        self.pipeline = pipeline
        self.max_age = max_age
        self.until = until
        self.command = command
        self.folder = os.fspath(folder) if folder is not None else None
        self.env = dict(env) if env is not None else None
        self.gearshift_conn_id = gearshift_conn_id
        if max_age is not None and until is not None:
            raise AirflowFailException(f"{self.task_id}: set max_age or until, not both")

    def poke(self, context: Context) -> bool:
        """Check the freshness once."""
        hook = GearshiftHook(
            file=self.file,
            command=self.command,
            folder=self.folder,
            env=self.env,
            gearshift_conn_id=self.gearshift_conn_id,
        )
        graph, pipeline = hook.pipeline(self.pipeline)
        found = self._freshness(hook, graph, pipeline)
        self.log.info("%s: %s", self.pipeline, found)
        return found.is_enough

    def _freshness(
        self, hook: GearshiftHook, graph: Mapping[str, Any], pipeline: Mapping[str, Any]
    ) -> Freshness:
        ledgers = hook.read("ledger")
        runner = None if pipeline.get("intervals") else hook.read("status")["runner"]
        now = datetime.now(UTC)
        until, why = complete_until(pipeline, ledgers, runner, graph["app"], now)
        wanted = (
            datetime.fromisoformat(self.until)
            if self.until is not None
            else wanted_until(pipeline, graph["timezone"], now, self.max_age)
        )
        return Freshness(until=until, wanted=wanted, why=why)
