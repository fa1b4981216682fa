"""Follows a run from Airflow's triggerer, and takes it over after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_gearshift.run import Run


class GearshiftRunTrigger(BaseTrigger):
    """Waits for a run to end and passes on what it says; the run itself needs no triggerer to go on."""

    def __init__(self, *, folder: str, deadline: float | None = None) -> None:
        super().__init__()
        self.folder = folder
        self.deadline = deadline
        """When the run is ended, in seconds since 1970: a triggerer that times out a trigger would not end it."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What another triggerer needs to take over."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "folder": self.folder,
            "deadline": self.deadline,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Follow the run to its end; the one event says how that was."""
        run = Run(Path(self.folder))
        late = False
        if not run.is_here:
            yield TriggerEvent({"error": _elsewhere(run)})
            return
        try:
            while True:
                over = run.is_over
                tell(self.log, run)
                if over:
                    break
                if not late and self.deadline is not None and datetime.now(UTC).timestamp() > self.deadline:
                    late = True
                    run.ask_to_end()
                await asyncio.sleep(0.5)
        except asyncio.CancelledError:
            # A triggerer that stops leaves the run to the next one. `airflow dags test` has no triggerer, and
            # so neither a trigger's id: nobody would take the run over.
            if self.trigger_id is None:
                run.end()
            raise
        run.kill()
        yield TriggerEvent({"timed_out": late, **outcome(run)})

    async def on_kill(self) -> None:
        """The task was marked or cleared by somebody: end the run."""
        await asyncio.to_thread(Run(Path(self.folder)).end)


def tell(log: Any, run: Run) -> None:
    """Put what a run has newly said into the task's log."""
    for line in run.new_lines():
        (log.error if line.startswith("error: ") else log.info)("%s", line)


def outcome(run: Run) -> dict[str, Any]:
    """How a run ended, as plain data."""
    return {"folder": str(run.folder), "exit": run.exit_code, "data": run.data(), "words": run.last_words()}


def _elsewhere(run: Run) -> str:
    return (
        f"the run's folder {run.folder} is not on the triggerer's machine; let both share the state_folder, "
        "or say deferrable=False"
    )
