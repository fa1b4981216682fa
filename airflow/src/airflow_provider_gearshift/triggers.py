"""Follow a run from Airflow's triggerer, across restarts of the triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_gearshift.run import Run


class GearshiftRunTrigger(BaseTrigger):
    """Waits for a run to end and logs its output; the run itself does not need the triggerer."""

    def __init__(self, *, folder: str, deadline: float | None = None) -> None:
        super().__init__()
        self.folder = folder
        self.deadline = deadline
        """When to stop the run, in seconds since the epoch: the triggerer's own timeout would not stop it."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What another triggerer needs to resume."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "folder": self.folder,
            "deadline": self.deadline,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Follow the run to its end; yield one event with the outcome."""
        run = Run(Path(self.folder))
        late = False
        if not run.is_here:
            yield TriggerEvent({"error": _elsewhere(run)})
            return
        try:
            while True:
                over = run.is_over
                log_output(self.log, run)
                if over:
                    break
                if not late and self.deadline is not None and datetime.now(UTC).timestamp() > self.deadline:
                    late = True
                    run.request_stop()
                await asyncio.sleep(0.5)
        except asyncio.CancelledError:
            # A triggerer that stops leaves the run to the next one. Under `airflow dags test` there is no triggerer
            # and no trigger id, so nothing would resume the run.
            if self.trigger_id is None:
                run.end()
            raise
        run.kill()
        yield TriggerEvent({"timed_out": late, **outcome(run)})

    async def on_kill(self) -> None:
        """Stop the run when the task is marked or cleared."""
        await asyncio.to_thread(Run(Path(self.folder)).end)


def log_output(log: Any, run: Run) -> None:
    """Copy a run's new output to the task's log."""
    for line in run.new_lines():
        (log.error if line.startswith("error: ") else log.info)("%s", line)


def outcome(run: Run) -> dict[str, Any]:
    """The outcome of a run, as plain data."""
    return {"folder": str(run.folder), "exit": run.exit_code, "data": run.data(), "words": run.error_output()}


def _elsewhere(run: Run) -> str:
    return (
        f"the run's folder {run.folder} is not on the triggerer's machine; share the state_folder between "
        "worker and triggerer, or set deferrable=False"
    )
