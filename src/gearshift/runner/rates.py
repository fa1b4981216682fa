"""Measures the lag, throughput and latency of each pipeline every second."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gearshift.definitions import Topic
from gearshift.freshness import Gear
from gearshift.pipelines.context import Context
from gearshift.pipelines.ledger.checkpoint import flat
from gearshift.pipelines.ledger.ledger import Ledger
from gearshift.pipelines.ledger.runs import count_between
from gearshift.pipelines.live_progress import Gauges, Live, Partition, quantiles
from gearshift.pipelines.supervisor import Supervisor

log = logging.getLogger(__name__)

_INTERVAL = 1.0
_WINDOW = 10.0  # seconds
_ENOUGH = 50  # offsets, to tell how many of them hold a record
_MAX_SHARE = 50  # measuring takes at most one fiftieth of the time


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The measurements of one pipeline: the ledger's counts plus those of the open batch."""

    records: int
    written: int
    lag: int
    arriving: float | None = None
    writing: float | None = None
    latency_ms: tuple[float, float] | None = None
    at: float = 0.0
    """When they were measured, in seconds of the monotonic clock."""
    ends: Mapping[Partition, int] = field(default_factory=dict[Partition, int])
    """The end offsets of the source topics."""
    done: Mapping[Partition, int] = field(default_factory=dict[Partition, int])
    """The offsets up to which they are processed; the end offset where that is not known, inside a real-time batch."""


class Rates:
    """Measures every pipeline of a runner."""

    def __init__(self, context: Context, supervisors: Iterable[Supervisor], topics: Iterable[str]) -> None:
        self.figures: dict[str, Figures] = {}
        self._context = context
        self._supervisors = list(supervisors)
        self._topics = sorted({*topics})
        self._gauges = Gauges(context.spark)
        self._seen: dict[str, list[tuple[float, int, int]]] = {}
        self._shares: dict[str, float] = {}
        self._sizes: dict[str, list[tuple[float, int]]] = {}
        self._wrote: dict[str, tuple[int, int]] = {}
        self._corrupt: dict[tuple[str, str], tuple[int, int]] = {}
        self._began_ms = int(time.time() * 1000)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rates", daemon=True)

    def open(self) -> None:
        """Measure now, then every second until closed."""
        self._measure()
        self._thread.start()

    def close(self) -> None:
        """Stop measuring."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def topics(self) -> list[dict[str, Any]]:
        """The records that ever arrived on each topic, and how many a second."""
        found: list[dict[str, Any]] = []
        for name, seen in list(self._sizes.items()):
            (first, begin), (last, end) = seen[0], seen[-1]
            share = self._shares.get(name, 1.0)
            rate = round(share * (end - begin) / (last - first), 1) if last > first else None
            found.append({"name": name, "records": end, "records_per_second": rate})
        return found

    def _run(self) -> None:
        took = 0.0
        while not self._closing.wait(max(_INTERVAL, took * _MAX_SHARE)):
            began = time.thread_time()
            self._measure()
            took = time.thread_time() - began

    def _measure(self) -> None:
        try:
            # Records of an open transaction cannot be read yet, and so do not count as lag.
            ends = self._context.admin.stable_offsets(self._topics) if self._topics else {}
            now = time.monotonic()
            self._measure_topics(ends, now)
            real_time = any(_is_open(supervisor) for supervisor in self._supervisors)
            live = self._gauges.read() if real_time else Live()
            for supervisor in self._supervisors:
                self._note(supervisor, ends, live, now)
        except Exception as error:
            log.warning("cannot measure rates: %s", error)

    def _measure_topics(self, ends: Mapping[Partition, int], now: float) -> None:
        sizes = dict.fromkeys(self._topics, 0)
        for (topic, _), end in ends.items():
            sizes[topic] += end
        for topic, size in sizes.items():
            kept = [each for each in self._sizes.get(topic, []) if now - each[0] < _WINDOW]
            self._sizes[topic] = [*kept, (now, size)]

    def _note(self, supervisor: Supervisor, ends: Mapping[Partition, int], live: Live, now: float) -> None:
        pipeline, ledger = supervisor.pipeline, supervisor.ledger
        name, before = pipeline.name, self.figures.get(pipeline.name)
        sources = {topic.name for topic in pipeline.topics.values()}
        done = flat(ledger.ends or ledger.checkpoint.first_offsets()) if sources else {}
        left = {place: max(0, end - done.get(place, 0)) for place, end in ends.items() if place[0] in sources}
        behind, known = dict(left), dict(left)
        latency = before.latency_ms if before is not None else None
        if _is_open(supervisor):
            groups = self._context.groups_of(pipeline)
            known = {
                place: min(lag, left[place])
                for group in groups
                for place, lag in live.lag.get(group, {}).items()
                if place in left
            }
            behind |= known
            latency = quantiles([age for group in groups for age in live.ages.get(group, [])]) or latency
            for group, topic in zip(groups, pipeline.topics.values(), strict=True):
                self._warn_of_corrupt(supervisor, topic, live.corrupt.get(group))
        else:
            latest = supervisor.condition.progress
            latency = latest.latency_ms if latest is not None else None
        target = pipeline.target
        out = sum(end for place, end in ends.items() if isinstance(target, Topic) and place[0] == target.name)
        records = sum(run.records for run in ledger.runs)
        records += sum(left.values()) - sum(behind.values())
        written = self._written(supervisor, out)
        if before is not None:  # between a commit and its report a count would briefly decrease
            records, written = max(records, before.records), max(written, before.written)
        arriving, writing = self._speeds(name, now, sum(ends[place] for place in left), out)
        if arriving is not None:
            arriving = round(arriving * self._share(ledger, sources), 1)
        self.figures[name] = Figures(
            records=records,
            written=written,
            lag=sum(behind.values()),
            arriving=arriving,
            writing=writing,
            latency_ms=latency,
            at=now,
            ends={place: ends[place] for place in left},
            done={place: ends[place] - known.get(place, 0) for place in left},
        )

    def _warn_of_corrupt(self, supervisor: Supervisor, topic: Topic, found: tuple[int, str] | None) -> None:
        """Log once per batch that records cannot be decoded: they are counted and set aside only when it ends."""
        place = supervisor.pipeline.name, topic.name
        batch, seen_ms = self._corrupt.get(place, (None, self._began_ms))
        if found is None or found[0] <= seen_ms:
            return
        latest = supervisor.condition.progress
        now = latest.batch_id if latest is not None else -1
        self._corrupt[place] = now, found[0]
        if batch != now:
            boundary = supervisor.boundary()
            left = (boundary - datetime.now(UTC)).total_seconds() if boundary is not None else 0
            log.warning(
                "%s: record %s of %s cannot be decoded; it goes to %s at the next checkpoint, in %.0f s",
                supervisor.pipeline.name,
                found[1],
                topic.name,
                topic.dead_letters,
                max(0.0, left),
            )

    def _written(self, supervisor: Supervisor, out: int) -> int:
        """The ledger's count plus, for a topic's only writer, the records of its open batch."""
        name, target = supervisor.pipeline.name, supervisor.pipeline.target
        counted = sum(run.written for run in supervisor.ledger.runs)
        writers = [each for each in self._context.graph.pipelines.values() if each.target == target]
        if not isinstance(target, Topic) or len(writers) > 1:
            return counted
        if not _is_open(supervisor) or name not in self._wrote:
            self._wrote[name] = counted, out
        base, since = self._wrote[name]
        return max(counted, base + out - since)

    def _share(self, ledger: Ledger, topics: set[str]) -> float:
        """How many of the topics' offsets hold a record: the markers of transactions take offsets, too."""
        batch = ledger.recent[-1] if ledger.recent else None
        offsets = count_between(batch.starts, batch.ends) if batch is not None else 0
        if batch is not None and offsets >= _ENOUGH:
            self._shares |= dict.fromkeys(topics, min(1.0, batch.records / offsets))
        return min((self._shares.get(topic, 1.0) for topic in topics), default=1.0)

    def _speeds(self, name: str, now: float, arrived: int, out: int) -> tuple[float | None, float | None]:
        seen = [entry for entry in self._seen.get(name, []) if now - entry[0] < _WINDOW]
        self._seen[name] = [*seen, (now, arrived, out)]
        if not seen:
            return None, None
        first, passed = seen[0], now - seen[0][0]
        return round((arrived - first[1]) / passed, 1), round((out - first[2]) / passed, 1)


def _is_open(supervisor: Supervisor) -> bool:
    """Whether a real-time batch is running, on which Spark reports nothing until it ends."""
    return supervisor.gear is Gear.REAL_TIME and supervisor.query is not None
