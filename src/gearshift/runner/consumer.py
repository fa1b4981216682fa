"""A consumer of a delivery in a process of its own: `python -m gearshift.runner.consumer`.

It is told what to do in a line of JSON on its input, tells how it is in lines of JSON on its output, and ends
when its input does: with the runner that started it, however that ended. What a handler prints goes to the log.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from gearshift.connection import Connection
from gearshift.delivery.care import Care, Spot
from gearshift.delivery.worker import Worker
from gearshift.errors import GearshiftError
from gearshift.redaction import RedactingFormatter, cover_tracebacks
from gearshift.runner.loading import load_app
from gearshift.settings import Settings

_TELLS_EVERY = 0.5
_ENDS_WITHIN = 60.0  # seconds; longer than the runner gives it


class Telling:
    """Lines of JSON to the runner, on what was the standard output: that is the log's from now on."""

    def __init__(self) -> None:
        self._lines = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._one_at_a_time = threading.Lock()

    def put(self, told: dict[str, Any]) -> None:
        """Write a line; it outlives this process."""
        with self._one_at_a_time:
            self._lines.write(json.dumps(told) + "\n")
            self._lines.flush()

    def often(self, worker: Worker) -> None:
        """Tell how it is, twice a second."""
        pause = threading.Event()
        while not pause.wait(_TELLS_EVERY):
            self.put(worker.status())

    def failed(self, error: GearshiftError) -> int:
        """Tell why it ends, which tells this end from a crash."""
        sys.stderr.write(f"error: {error}\n")
        self.put({"failure": str(error)})
        return 1

    def care(self, killers: list[tuple[Spot, int]] | None) -> Care | None:
        """After a crash of the process before: tell which records are in hand."""
        if killers is None:
            return None
        by_spot = {(spot[0], spot[1], spot[2]): deaths for spot, deaths in killers}
        return Care(lambda spots: self.put({"in_hand": spots}), by_spot)


def spare_the_collector() -> None:
    """Let the garbage collector come less often: by its usual measure each poll makes it search what is in hand."""
    gc.set_threshold(20_000)


def main() -> int:
    """Deliver until the input ends."""
    telling = Telling()
    spare_the_collector()
    handler = logging.StreamHandler()
    handler.setFormatter(RedactingFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    cover_tracebacks()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the runner, which ends us in order
    told: dict[str, Any] = json.loads(sys.stdin.readline())
    try:
        app = load_app(Path(told["file"]))
        worker = Worker(
            app.graph.deliveries[told["delivery"]],
            app.name,
            Connection(**told["connection"]),
            settings=Settings.model_validate(told["settings"]),
            member=told["member"],
            care=telling.care(told["care"]),
        )
    except GearshiftError as error:
        return telling.failed(error)

    def stop(*_: object) -> None:
        worker.stop()

    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=_end_with_input, args=(worker,), daemon=True).start()
    threading.Thread(target=telling.often, args=(worker,), daemon=True).start()
    try:
        worker.run()
    except GearshiftError as error:
        return telling.failed(error)
    telling.put(worker.status())
    return 0


def _end_with_input(worker: Worker) -> None:
    """End when the runner has ended, in any case: to leave its group a consumer waits for the brokers, and those may be gone."""
    while sys.stdin.readline():
        pass
    worker.stop()
    threading.Event().wait(_ENDS_WITHIN)
    os._exit(1)  # as a crash would, which loses nothing


if __name__ == "__main__":
    sys.exit(main())
