"""Waits until a pipeline's result is as fresh as promised."""

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
    """Waits until a pipeline, in whatever gear it runs, keeps the promise that its app declares.

    A pipeline of intervals keeps it when the last interval that is over has been run; any other when it runs and has
    nothing left to do, when its measured latency is within the promise, or when its last batch is.

    :param file: The app's file; relative to `folder` if that is given.
    :param pipeline: The pipeline's name.
    :param max_age: How old the result may be, instead of the promise.
    :param until: Up to when the result has to be complete, as an ISO time, instead of the promise; such as
        `{{ data_interval_end }}`.
    :param command: Gearshift's command, with `folder`, `env` and `gearshift_conn_id` as in `GearshiftBatchOperator`.

    The other arguments are those of every sensor. It looks once a minute and gives the worker back in between.
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
            raise AirflowFailException(f"{self.task_id}: give max_age or until, not both")

    def poke(self, context: Context) -> bool:
        """Look once."""
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
