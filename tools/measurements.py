"""What the pictures of the documentation show: measured by running the apps of docs/concepts."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.transcripts import CONCEPTS, ask, gearshift, run, running, settled

_GEARS = ("near-real-time", "batch", "near-real-time", "real-time")
_SECONDS_IN_GEAR = 12
_SECONDS_OF_LAG = 60
_MAX_LAG = 500
_KEPT = ("gear", "began", "ended", "records", "replayed", "gap", "pause")


def ledger() -> dict[str, Any]:
    """The ledger of a pipeline that was shifted through all gears while records arrived."""
    with running(settled) as folder:
        return shifted(folder)


def shifted(folder: Path) -> dict[str, Any]:
    """The ledger after such shifts in the folder of a running app."""
    for gear in _GEARS:
        run(folder, f"gearshift shift load_alerts {gear}")
        time.sleep(_SECONDS_IN_GEAR)  # long enough to be seen on the time line
    run(folder, "gearshift shift load_alerts near-real-time")
    [found] = ask(folder, "gearshift ledger load_alerts -o json")
    runs = [{name: each[name] for name in _KEPT} for each in found["runs"] if each["ended"]]
    return {"pipeline": found["pipeline"], "runs": runs}


def lag() -> dict[str, Any]:
    """The lag of the two groups of pressure.py, by seconds since the first record."""
    curves: dict[str, list[tuple[float, int]]] = {"unlimited": [], "limited": []}
    with running(_reading, app=CONCEPTS / "pressure.py", settings="") as folder:
        watching = subprocess.Popen(
            [gearshift(), "group", "lag", "--watch", "-o", "json"],
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            for second, topics in _lags(watching):
                for name, curve in curves.items():
                    curve.append((second, topics.get(name, 0)))
                if second > _SECONDS_OF_LAG:
                    break
        finally:
            watching.terminate()
            watching.wait()
    return {"max_lag": _MAX_LAG, "lag": curves}


def _lags(watching: subprocess.Popen[str]) -> Iterator[tuple[float, dict[str, int]]]:
    """The lag of each topic, whenever the command reports it, from the first record on."""
    assert watching.stdout is not None
    began: float | None = None
    for line in watching.stdout:
        groups = json.loads(line)
        topics = {group["partitions"][0]["topic"]: group["lag"] for group in groups}
        if began is None and any(topics.values()):
            began = time.monotonic()
        if began is not None:
            yield round(time.monotonic() - began, 1), topics


def _reading(folder: Path) -> bool:
    """Whether both deliveries have consumers."""
    status: dict[str, Any] = ask(folder, "gearshift status -o json") or {}
    deliveries = (status.get("runner") or {}).get("deliveries", [])
    return len(deliveries) == 2 and all(each["consumers"] for each in deliveries)
