"""Traffic of a simulated day: the records that have arrived by each second, and when things are down."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

HOUR = 3600.0
DAY = 24 * HOUR


class Traffic:
    """Records that arrive at constant rates between given seconds of a day.

    >>> traffic = Traffic([(0, 2.0), (10, 0.0), (20, 1.0)], end=30)
    >>> traffic.arrived(5), traffic.arrived(20), traffic.arrival_of(21), traffic.rate_at(12)
    (10.0, 20.0, 21.0, 0.0)
    """

    def __init__(self, rates: Iterable[tuple[float, float]], *, end: float = DAY) -> None:
        self.end = end
        given = sorted(rates)
        self._starts = [start for start, _ in given]
        self._rates = [rate for _, rate in given]
        self._counts = [0.0]
        for (start, rate), (stop, _) in pairwise(given):
            self._counts.append(self._counts[-1] + rate * (stop - start))

    def rate_at(self, second: float) -> float:
        """Records per second."""
        return self._rates[max(0, bisect_right(self._starts, second) - 1)]

    def next_change(self, second: float) -> float:
        """The next second at which the rate changes; infinity after the last."""
        index = bisect_right(self._starts, second)
        return self._starts[index] if index < len(self._starts) else math.inf

    def arrived(self, second: float) -> float:
        """How many records have arrived by a second."""
        index = max(0, bisect_right(self._starts, second) - 1)
        return self._counts[index] + self._rates[index] * max(0.0, second - self._starts[index])

    def arrival_of(self, record: float) -> float:
        """When the record with this number arrives, the first being 1; infinity if it does not."""
        index = bisect_right(self._counts, record) - 1
        # A record that completes a stretch without traffic arrived before it.
        while index > 0 and self._counts[index] >= record:
            index -= 1
        rate = self._rates[index]
        if rate <= 0:
            return math.inf
        second = self._starts[index] + (record - self._counts[index]) / rate
        return second if second <= self.end else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """One day of a pipeline: its traffic and its troubles."""

    name: str
    traffic: Traffic
    outages: tuple[tuple[float, float], ...] = ()
    """When the query cannot work, from second to second."""
    slower: tuple[float, float, float] = field(default=(0.0, DAY, 0.0))
    """From second to second, the seconds by which a micro-batch slowly comes to take longer."""

    def is_down(self, second: float) -> bool:
        """Whether an outage is on."""
        return any(start <= second < end for start, end in self.outages)

    def next_edge(self, second: float) -> float:
        """The next begin or end of an outage."""
        edges = [edge for outage in self.outages for edge in outage if edge > second]
        return min(edges, default=math.inf)

    def extra(self, second: float) -> float:
        """Seconds by which a micro-batch takes longer at a time."""
        start, end, most = self.slower
        return most * min(1.0, max(0.0, (second - start) / (end - start)))


def office_day(peak: float) -> Day:
    """Silence at night, a morning that grows, a lunch break, and an afternoon that ends."""
    shape = {7: 0.05, 8: 0.3, 9: 0.8, 10: 1.0, 12: 0.5, 13: 0.9, 16: 0.6, 17: 0.3, 18: 0.1, 20: 0.01, 22: 0.0}
    rates = [(0.0, 0.0), *((hour * HOUR, peak * share) for hour, share in shape.items())]
    return Day(name="office hours", traffic=Traffic(rates))


def market_day(peak: float) -> Day:
    """A market that opens at nine with a burst, trades, closes with another, and is silent otherwise."""
    rates = [
        (0.0, 0.0),
        (8.0 * HOUR, peak * 0.01),
        (9.0 * HOUR, peak),
        (9.0 * HOUR + 300, peak * 0.6),
        (9.5 * HOUR, peak * 0.25),
        (12.0 * HOUR, peak * 0.15),
        (15.5 * HOUR, peak * 0.3),
        (17.0 * HOUR, peak * 0.5),
        (17.4 * HOUR, peak * 0.9),
        (17.5 * HOUR, peak * 0.02),
        (18.0 * HOUR, 0.0),
    ]
    return Day(name="market", traffic=Traffic(rates))


def bursty_day(peak: float, *, seed: int = 1) -> Day:
    """A trickle all day, with thirty bursts of one to five minutes."""
    dice, rates = random.Random(seed), {0.0: peak * 0.001}
    for each in range(30):
        start = each * DAY / 30 + dice.uniform(0, DAY / 30 - 400)
        rates[start] = peak * dice.uniform(0.2, 1.0)
        rates[start + dice.uniform(60, 300)] = peak * 0.001
    return Day(name="bursts", traffic=Traffic(rates.items()))


def troubled_day(peak: float) -> Day:
    """An office day on which Kafka is down for five minutes, the destination for twenty, and batches grow slower."""
    office = office_day(peak)
    return Day(
        name="outages and a slow creep",
        traffic=office.traffic,
        outages=((10.2 * HOUR, 10.2 * HOUR + 300), (14.0 * HOUR, 14.0 * HOUR + 1200)),
        slower=(8 * HOUR, 20 * HOUR, 1.5),
    )


def any_day(seed: int, peak: float) -> Day:
    """A random day: levels, silences, ramps, bursts, outages and a creep."""
    dice = random.Random(seed)
    rates: dict[float, float] = {0.0: 0.0}
    for _ in range(dice.randint(1, 12)):
        rates[dice.uniform(0, DAY)] = dice.choice((0.0, 0.01, peak * dice.random() ** 3))
    for _ in range(dice.randint(0, 12)):
        start = dice.uniform(0, DAY - 700)
        before = rates[max(each for each in rates if each <= start)]
        rates[start] = peak * dice.random()
        rates[start + dice.uniform(2, 600)] = before
    if dice.random() < 0.5:  # a quick or slow back and forth around one level
        start, period, level = dice.uniform(0, DAY / 2), dice.uniform(20, 1800), peak * dice.random()
        for step in range(dice.randint(4, 40)):
            rates[start + step * period] = level * (1.4 if step % 2 else 0.6)
    outages: list[tuple[float, float]] = []
    for _ in range(dice.randint(0, 3)):
        start = dice.uniform(outages[-1][1] if outages else 0, DAY)
        outages.append((start, min(DAY, start + dice.uniform(5, 3600))))
    creep = (0.0, DAY, dice.choice((0.0, 0.0, dice.uniform(0, 3))))
    within = [(second, rate) for second, rate in rates.items() if second < DAY]
    return Day(name=f"day {seed}", traffic=Traffic(within), outages=tuple(outages), slower=creep)
