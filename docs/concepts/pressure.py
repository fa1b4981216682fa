"""Back pressure for the page on consumers: two equal topics, sources and slow deliveries; one topic limits the lag."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import gearshift as gs


@dataclass
class Event:
    number: int


app = gs.App("pressure")
unlimited = app.topic("unlimited", value=Event, key="number")
limited = app.topic("limited", value=Event, key="number", max_lag=500)


@app.source(to=unlimited, rate=200)
def fast() -> Iterator[Event]:
    return map(Event, count())


@app.source(to=limited, rate=200)
def slowed() -> Iterator[Event]:
    return map(Event, count())


@app.delivery(unlimited, batch_size=10)
def slow_reader(events: list[gs.Record[Event]]) -> None:
    time.sleep(0.125)  # ten records in an eighth of a second: 80 a second


@app.delivery(limited, batch_size=10)
def slow_limited_reader(events: list[gs.Record[Event]]) -> None:
    time.sleep(0.125)
