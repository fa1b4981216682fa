"""What a source may say."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from gearshift.definitions import Location, Topic
from gearshift.rules.declared import wrong


def require_writable(topic: object, who: str, where: Location) -> None:
    """A source writes to a topic of the app, and not among the changes of a database."""
    if not isinstance(topic, Topic):
        raise wrong(f"{who} writes to {topic!r}", "give it what app.topic gave", where)
    if topic.envelope is not None:
        raise wrong(
            f"{who} writes to {topic.name}, which holds changes of a database",
            "use a topic of its own",
            where,
        )


def check_generator(name: str, generate: Callable[..., Any], seed: int | None, where: Location) -> None:
    """Refuse a generator that asks for what it will not get."""
    required = [
        each for each in inspect.signature(generate).parameters.values() if each.default is each.empty
    ]
    if len(required) > (0 if seed is None else 1):
        raise wrong(
            f"source {name} takes {', '.join(each.name for each in required)}",
            "with seed=7 it gets a random.Random; without one it takes nothing",
            where,
        )


def shape_of_day(
    name: str, day: Sequence[float] | Callable[[float], float], where: Location
) -> tuple[float, ...]:
    """The weights of a day: 24, or one a minute of a function; none for an even one."""
    weights = tuple(day(minute / 60) for minute in range(1440)) if callable(day) else tuple(day)
    if weights and not callable(day) and len(weights) != 24:
        raise wrong(f"the day of source {name} has {len(weights)} weights", "one for each of 24 hours", where)
    if weights and not (all(0 <= weight < float("inf") for weight in weights) and sum(weights)):
        raise wrong(f"the day of source {name} has a weight below 0, or none above", "use numbers", where)
    return weights
