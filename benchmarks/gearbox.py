"""The gearbox against fixed gears on four simulated days, and 10,000 random days on which it must not flap.

What a gear costs and how fast it is was measured (`benchmarks/gear_costs.py`); the days are simulated, so that this
takes minutes. Results go to benchmarks/results/gearbox.json and to a table.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from gearshift.freshness import Gear
from gearshift.gearbox.measurements import Limits, Promise
from gearshift.testing.gearbox.machine import GROUPED, STATELESS, Speed
from gearshift.testing.gearbox.simulator import Outcome, drive, stay
from gearshift.testing.gearbox.traffic import (
    HOUR,
    Day,
    any_day,
    bursty_day,
    market_day,
    office_day,
    troubled_day,
)

RESULTS = Path(__file__).parent / "results" / "gearbox.json"
LIMITS = Limits()
FRESHNESS = (1.0, 2.0, 5.0, 10.0, 60.0)
NEAR, REAL = Gear.NEAR_REAL_TIME, Gear.REAL_TIME
_AS_WELL = 0.001
"""The share of the time by which the promise may be held less than always in real-time."""


@dataclass(frozen=True)
class Kind:
    """A kind of pipeline on three partitions."""

    name: str
    speed: Speed
    slots: int

    def promise(self, freshness: float) -> Promise:
        return Promise(
            freshness=freshness,
            trigger=min(max(freshness / 2, 1.0), 300.0),
            gears=frozenset({NEAR, REAL}),
            slots=self.slots,
            grouped=self.speed is GROUPED,
        )


KINDS = (Kind("stateless", STATELESS, 3), Kind("count per key", GROUPED, 5))


def days(kind: Kind) -> tuple[Day, ...]:
    """The four days: two of an office, and two whose peaks are more than micro-batches can take."""
    most = kind.speed.capacity
    return office_day(2_000), market_day(1.1 * most), bursty_day(1.2 * most), troubled_day(2_000)


def main() -> None:
    """Simulate, write the results, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=10_000, help="random days for the flaps")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    began = time.monotonic()
    cases = [(kind, day, fresh) for kind in KINDS for day in range(4) for fresh in FRESHNESS]
    with ProcessPoolExecutor(chosen.processes) as pool:
        measured = list(pool.map(_compare, *zip(*cases, strict=True)))
        flaps = list(pool.map(_random_days, _parts(chosen.days, 100)))
    random_days = {
        "days": chosen.days,
        "flaps": sum(each["flaps"] for each in flaps),
        "shifts": sum(each["shifts"] for each in flaps),
        "most_shifts_in_an_hour": max((each["most"] for each in flaps), default=0),
    }
    content = {"chosen": vars(chosen), "random_days": random_days, "days": measured}
    RESULTS.write_text(json.dumps(content, indent=1))
    show(measured)
    print(
        f"{chosen.days:,} random days: {random_days['flaps']} flaps, {random_days['shifts']:,} shifts, at most "
        f"{random_days['most_shifts_in_an_hour']} in an hour ({time.monotonic() - began:.0f} s)"
    )


def _compare(kind: Kind, index: int, freshness: float) -> dict[str, Any]:
    day, promise = days(kind)[index], kind.promise(freshness)
    outcomes = {
        "gearbox": drive(day, promise, kind.speed, LIMITS),
        str(REAL): stay(day, promise, kind.speed, REAL),
        str(NEAR): stay(day, promise, kind.speed, NEAR),
    }
    held = max(outcomes[str(REAL)].held, outcomes[str(NEAR)].held)
    kept = [gear for gear in (NEAR, REAL) if outcomes[str(gear)].held >= held - _AS_WELL]
    best = min(kept, key=lambda gear: outcomes[str(gear)].processor)
    return {
        "pipeline": kind.name,
        "day": day.name,
        "freshness": freshness,
        "best_single_gear": str(best),
        **{name: _plain(outcome) for name, outcome in outcomes.items()},
    }


def _plain(outcome: Outcome) -> dict[str, Any]:
    return {
        "held": round(outcome.held, 6),
        "processor_seconds": round(outcome.processor + outcome.of_records),
        "of_records": round(outcome.of_records),
        "shifts": [[round(second), str(gear), reason] for second, gear, reason in outcome.shifts],
        "replayed": round(outcome.replayed),
        "emitted": round(outcome.emitted),
    }


def _random_days(seeds: range) -> dict[str, int]:
    found = {"flaps": 0, "shifts": 0, "most": 0}
    for seed in seeds:
        kind, freshness = KINDS[seed % 2], (1.0, 2.0, 3.0, 5.0, 10.0, 60.0)[seed // 2 % 6]
        day = any_day(seed, 1.3 * kind.speed.capacity)
        outcome = drive(day, kind.promise(freshness), kind.speed, LIMITS, seed=seed, every_second=False)
        times = [second for second, _, _ in outcome.shifts]
        found["flaps"] += outcome.flaps(LIMITS)
        found["shifts"] += len(times)
        found["most"] = max(
            found["most"], *(sum(0 <= later - first < HOUR for later in times) for first in times), 0
        )
    return found


def _parts(count: int, size: int) -> Iterable[range]:
    return [range(first, min(count, first + size)) for first in range(0, count, size)]


def show(measured: list[dict[str, Any]]) -> None:
    """Print the table: share of the time held, thousands of processor seconds, shifts, replays."""
    table = Table(title="promise held, processor seconds; records replayed")
    for column in (
        "pipeline",
        "day",
        "freshness",
        "gearbox",
        "of real-time's cost (besides records)",
        "shifts",
        "always real-time",
        "always near",
        "best",
    ):
        table.add_column(column)
    for each in measured:
        real, box = each[str(REAL)], each["gearbox"]
        good = box["held"] >= real["held"] - _AS_WELL
        table.add_row(
            each["pipeline"],
            each["day"],
            f"{each['freshness']:g} s",
            f"{'' if good else '[red]'}{_figures(box)}",
            f"{_share(box, real, 0):.2f} ({_share(box, real, 1):.2f})",
            str(len(box["shifts"])),
            _figures(real),
            _figures(each[str(NEAR)]),
            each["best_single_gear"],
        )
    Console(width=170).print(table)


def _share(outcome: dict[str, Any], other: dict[str, Any], besides: int) -> float:
    """The cost as a share of another's, with the cost of the records or without it."""
    cost, others = (each["processor_seconds"] - besides * each["of_records"] for each in (outcome, other))
    return cost / others


def _figures(outcome: dict[str, Any]) -> str:
    return f"{outcome['held'] * 100:.2f}% {outcome['processor_seconds']:,} s; {outcome['replayed']:,}"


if __name__ == "__main__":
    main()
