"""How far each pipeline is, how fast records arrive and come out, and how old they are: measured every second."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from gearshift.definitions import Topic
from gearshift.freshness import Gear
from gearshift.pipelines.checkpoint import flat
from gearshift.pipelines.driver import Driver
from gearshift.pipelines.engine import Engine
from gearshift.pipelines.live import Gauges, Live, Partition, quantiles

log = logging.getLogger(__name__)

_EVERY = 1.0
_OVER = 10.0  # seconds
_SHARE = 50  # measuring takes at most one part in so many of the time


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was measured of one pipeline; the ledger's numbers and what a batch that is still open has done since."""

    records: int
    written: int
    lag: int
    arriving: float | None = None
    writing: float | None = None
    latency_ms: tuple[float, float] | None = None


class Rates:
    """The figures of every pipeline of a runner."""

    def __init__(self, engine: Engine, drivers: Iterable[Driver], topics: Iterable[str]) -> None:
        self.figures: dict[str, Figures] = {}
        self._engine = engine
        self._drivers = list(drivers)
        self._topics = sorted({*topics})
        self._gauges = Gauges(engine.spark)
        self._seen: dict[str, list[tuple[float, int, int]]] = {}
        self._wrote: dict[str, tuple[int, int]] = {}
        self._corrupt: dict[tuple[str, str], tuple[int, int]] = {}
        self._began_ms = int(time.time() * 1000)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rates", daemon=True)

    def open(self) -> None:
        """Measure now, and every second until closed."""
        self._measure()
        self._thread.start()

    def close(self) -> None:
        """Measure no more."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def _run(self) -> None:
        took = 0.0
        while not self._closing.wait(max(_EVERY, took * _SHARE)):
            began = time.thread_time()
            self._measure()
            took = time.thread_time() - began

    def _measure(self) -> None:
        try:
            # What is in an open transaction cannot be read yet, and so nobody is behind with it.
            ends = self._engine.admin.stable_offsets(self._topics) if self._topics else {}
            now = time.monotonic()
            real_time = any(_is_open(driver) for driver in self._drivers)
            live = self._gauges.read() if real_time else Live()
            for driver in self._drivers:
                self._note(driver, ends, live, now)
        except Exception as error:
            log.warning("not measured: %s", error)

    def _note(self, driver: Driver, ends: Mapping[Partition, int], live: Live, now: float) -> None:
        pipeline, ledger = driver.pipeline, driver.books.ledger
        name, before = pipeline.name, self.figures.get(pipeline.name)
        sources = {topic.name for topic in pipeline.topics.values()}
        done = flat(ledger.ends or ledger.checkpoint.first_offsets()) if sources else {}
        left = {place: max(0, end - done.get(place, 0)) for place, end in ends.items() if place[0] in sources}
        behind = dict(left)
        latency = before.latency_ms if before is not None else None
        if _is_open(driver):
            groups = self._engine.groups_of(pipeline)
            for place, lag in [item for group in groups for item in live.lag.get(group, {}).items()]:
                if place in left:
                    behind[place] = min(lag, left[place])
            latency = quantiles([age for group in groups for age in live.ages.get(group, [])]) or latency
            for group, topic in zip(groups, pipeline.topics.values(), strict=True):
                self._warn_of_corrupt(driver, topic, live.corrupt.get(group))
        else:
            latest = driver.condition.progress
            latency = latest.latency_ms if latest is not None else None
        target = pipeline.target
        out = sum(end for place, end in ends.items() if isinstance(target, Topic) and place[0] == target.name)
        records = sum(stretch.records for stretch in ledger.stretches)
        records += sum(left.values()) - sum(behind.values())
        written = self._written(driver, out)
        if before is not None:  # between a commit and its report a number would go back for a moment
            records, written = max(records, before.records), max(written, before.written)
        arriving, writing = self._speeds(name, now, sum(ends[place] for place in left), out)
        self.figures[name] = Figures(
            records=records,
            written=written,
            lag=sum(behind.values()),
            arriving=arriving,
            writing=writing,
            latency_ms=latency,
        )

    def _warn_of_corrupt(self, driver: Driver, topic: Topic, found: tuple[int, str] | None) -> None:
        """Say once a batch that records cannot be decoded: they are counted and set aside only when it ends."""
        place = driver.pipeline.name, topic.name
        batch, seen_ms = self._corrupt.get(place, (None, self._began_ms))
        if found is None or found[0] <= seen_ms:
            return
        latest = driver.condition.progress
        now = latest.batch_id if latest is not None else -1
        self._corrupt[place] = now, found[0]
        if batch != now:
            boundary = driver.boundary()
            left = (boundary - datetime.now(UTC)).total_seconds() if boundary is not None else 0
            log.warning(
                "%s: record %s of %s cannot be decoded; it goes to %s at the next checkpoint, in %.0f s",
                driver.pipeline.name,
                found[1],
                topic.name,
                topic.dead_letters,
                max(0.0, left),
            )

    def _written(self, driver: Driver, out: int) -> int:
        """The ledger's count, and what the open batch of a topic's only writer has added to the topic since."""
        name, target = driver.pipeline.name, driver.pipeline.target
        counted = sum(stretch.written for stretch in driver.books.ledger.stretches)
        writers = [each for each in self._engine.graph.pipelines.values() if each.target == target]
        if not isinstance(target, Topic) or len(writers) > 1:
            return counted
        if not _is_open(driver) or name not in self._wrote:
            self._wrote[name] = counted, out
        base, since = self._wrote[name]
        return max(counted, base + out - since)

    def _speeds(self, name: str, now: float, arrived: int, out: int) -> tuple[float | None, float | None]:
        seen = [entry for entry in self._seen.get(name, []) if now - entry[0] < _OVER]
        self._seen[name] = [*seen, (now, arrived, out)]
        if not seen:
            return None, None
        first, passed = seen[0], now - seen[0][0]
        return round((arrived - first[1]) / passed, 1), round((out - first[2]) / passed, 1)


def _is_open(driver: Driver) -> bool:
    """Whether a real-time batch is under way, of which Spark says nothing until it ends."""
    return driver.gear is Gear.REAL_TIME and driver.query is not None
