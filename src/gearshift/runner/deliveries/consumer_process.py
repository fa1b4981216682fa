"""The process of one consumer: `python -m gearshift.runner.deliveries.consumer_process`.

It reads its task as a line of JSON from stdin, reports its status as lines of JSON on stdout, and ends when stdin is
closed, which happens however the runner ends. What a handler prints goes to the log.
"""

from __future__ import annotations

import contextlib
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
from gearshift.delivery.assignment import RecordId
from gearshift.delivery.crash_guard import CrashGuard
from gearshift.delivery.worker import Worker
from gearshift.errors import GearshiftError, LoginError
from gearshift.log_lines import JsonLines, rotate
from gearshift.redaction import RedactingFormatter, cover_tracebacks
from gearshift.runner.loading import load_app
from gearshift.settings import Settings

log = logging.getLogger(__name__)

_REPORT_EVERY = 0.5
_ENDS_WITHIN = 60.0  # seconds; longer than the runner waits


class Reports:
    """Lines of JSON to the runner, on the original stdout; stdout itself goes to the log."""

    def __init__(self) -> None:
        self._lines = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._one_at_a_time = threading.Lock()

    def write(self, report: dict[str, Any]) -> None:
        """Write a line; the runner receives it even if this process crashes afterwards."""
        with self._one_at_a_time:
            self._lines.write(json.dumps(report) + "\n")
            self._lines.flush()

    def write_status(self, worker: Worker, log: Path) -> None:
        """Report the status twice a second, and begin a new log when it is large."""
        pause = threading.Event()
        while not pause.wait(_REPORT_EVERY):
            self.write(worker.status())
            with contextlib.suppress(OSError):  # on a full disk the old log is kept
                rotate(log, sys.stderr.fileno(), sys.stdout.fileno())

    def failed(self, error: GearshiftError) -> int:
        """Report why the process ends, which distinguishes it from a crash."""
        log.error("%s", error)
        self.write({"failure": str(error), "final": isinstance(error, LoginError)})
        return 1

    def crash_guard(self, crashes: list[tuple[RecordId, int]] | None) -> CrashGuard | None:
        """After a crash of the former process: a guard that reports the records being handled."""
        if crashes is None:
            return None
        by_record = {(record[0], record[1], record[2]): count for record, count in crashes}
        return CrashGuard(lambda records: self.write({"handling": records}), by_record)


def relax_garbage_collector() -> None:
    """Run the garbage collector less often: by default each poll makes it scan the records in flight."""
    gc.set_threshold(20_000)


def main() -> int:
    """Deliver until stdin is closed."""
    reports = Reports()
    relax_garbage_collector()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the runner, which stops this process
    task: dict[str, Any] = json.loads(sys.stdin.readline())
    handler = logging.StreamHandler()
    plain = RedactingFormatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JsonLines() if task["json"] else plain)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    cover_tracebacks()
    try:
        app = load_app(Path(task["file"]))
        worker = Worker(
            app.graph.deliveries[task["delivery"]],
            app.name,
            Connection(**task["connection"]),
            settings=Settings.model_validate(task["settings"]),
            member=task["member"],
            crash_guard=reports.crash_guard(task["crashes"]),
        )
    except GearshiftError as error:
        return reports.failed(error)

    def stop(*_: object) -> None:
        worker.stop()

    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=_end_with_input, args=(worker,), daemon=True).start()
    threading.Thread(target=reports.write_status, args=(worker, Path(task["log"])), daemon=True).start()
    try:
        worker.run()
    except GearshiftError as error:
        return reports.failed(error)
    reports.write(worker.status())
    return 0


def _end_with_input(worker: Worker) -> None:
    """Stop when the runner has ended; exit even if the brokers needed to leave the group are gone."""
    while sys.stdin.readline():
        pass
    worker.stop()
    threading.Event().wait(_ENDS_WITHIN)
    os._exit(1)  # like a crash, which loses nothing


if __name__ == "__main__":
    sys.exit(main())
