"""A run: every fault in an order drawn by lot, alone or two at once, until the time is over."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.faults.harness.faults import FAULTS, Fault, happen
from tests.faults.harness.judging import Verdict, settle
from tests.faults.harness.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What happened, and what came of it."""

    seed: int
    seconds: float
    sent: int
    faults: Counter[str]
    followed: list[str]
    verdicts: list[Verdict]

    @property
    def kept(self) -> bool:
        """Whether every promise was kept."""
        return all(verdict.kept for verdict in self.verdicts)

    def __str__(self) -> str:
        faults = "\n".join(f"  {count} x {name}" for name, count in sorted(self.faults.items()))
        verdicts = "\n".join(f"  {verdict}" for verdict in self.verdicts)
        return f"seed {self.seed}, {self.seconds:.0f} s, {self.sent} records sent\n{faults}\n{verdicts}"


def run(
    folder: Path,
    *,
    seed: int,
    seconds: float,
    faults: tuple[Fault, ...] = FAULTS,
    mutant: str | None = None,
    log: Callable[[str], None] = print,
) -> Report:
    """Let faults happen until the time is over and each kind has happened; none comes a second time before."""
    happened: Counter[str] = Counter()
    with World(folder, seed=seed, mutant=mutant) as world:
        began = time.monotonic()
        world.log = lambda words: log(f"{time.monotonic() - began:6.1f} s  {words}")
        deck: list[Fault] = []
        while time.monotonic() - began < seconds or len(happened) < len(faults):
            if not deck:
                deck = world.chance.sample(faults, len(faults))
            drawn = [deck.pop()]
            second = next((f for f in reversed(deck) if f.reaches != drawn[0].reaches and not f.alone), None)
            if second is not None and not drawn[0].alone and world.chance.random() < 0.5:
                deck.remove(second)
                drawn.append(second)
            happen(world, drawn, world.chance.uniform(1, 6))
            happened.update(fault.name for fault in drawn)
        world.log("no more faults; waiting for the rest")
        verdicts = settle(world)
        return Report(
            seed=seed,
            seconds=time.monotonic() - began,
            sent=world.flow.sent.total(),
            faults=happened,
            followed=world.followed,
            verdicts=verdicts,
        )
