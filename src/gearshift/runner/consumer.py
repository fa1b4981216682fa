"""A consumer of a delivery in a process of its own: `python -m gearshift.runner.consumer`.

It is told what to do in a line of JSON on its input, tells how it is in lines of JSON on its output, and ends
when its input does: with the runner that started it, however that ended.
"""

from __future__ import annotations

import gc
import json
import logging
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from gearshift.connection import Connection
from gearshift.delivery.care import Care, Spot
from gearshift.delivery.worker import Worker
from gearshift.errors import GearshiftError
from gearshift.runner.loading import load_app
from gearshift.settings import Settings

_TELLS_EVERY = 0.5
_one_line_at_a_time = threading.Lock()


def spare_the_collector() -> None:
    """Let the garbage collector come less often: by its usual measure each poll makes it search what is in hand."""
    gc.set_threshold(20_000)


def main() -> int:
    """Deliver until the input ends."""
    spare_the_collector()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
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
            care=_care(told["care"]),
        )
    except GearshiftError as error:
        return _failed(error)

    def stop(*_: object) -> None:
        worker.stop()

    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=_end_with_input, args=(worker,), daemon=True).start()
    threading.Thread(target=_tell, args=(worker,), daemon=True).start()
    try:
        worker.run()
    except GearshiftError as error:
        return _failed(error)
    _say(worker)
    return 0


def _end_with_input(worker: Worker) -> None:
    while sys.stdin.readline():
        pass
    worker.stop()


def _tell(worker: Worker) -> None:
    pause = threading.Event()
    while not pause.wait(_TELLS_EVERY):
        _say(worker)


def _failed(error: GearshiftError) -> int:
    sys.stderr.write(f"error: {error}\n")
    return 1


def _care(killers: list[tuple[Spot, int]] | None) -> Care | None:
    """After a death: say which records are in hand, on the same output, which outlives this process."""
    if killers is None:
        return None
    return Care(
        lambda spots: _put({"in_hand": spots}), {(spot[0], spot[1], spot[2]): n for spot, n in killers}
    )


def _say(worker: Worker) -> None:
    _put(worker.status())


def _put(told: dict[str, Any]) -> None:
    with _one_line_at_a_time:
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
