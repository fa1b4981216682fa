"""The order in which records arrive: late, repeated and out of order on request, and the same for a seed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeVar

from gearshift.errors import DefinitionError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """How records arrive. No record is later than `disorder` by event time, so a watermark of that delay drops none."""

    late: float = 0.0
    """The share of values that are delayed by more than half of `disorder`."""
    repeated: float = 0.0
    """The share of values that are sent again, later."""
    disorder: timedelta | None = None
    """The span of event time within which arrivals are shuffled; None keeps the order of the values."""
    seed: int = 7

    def __post_init__(self) -> None:
        for name, share in (("late", self.late), ("repeated", self.repeated)):
            if not 0 <= share <= 1:
                raise DefinitionError(f"{name} is {share}", hint="give a share from 0 to 1, such as 0.05")
        if self.disorder is not None and self.disorder <= timedelta(0):
            raise DefinitionError(f"disorder is {self.disorder}", hint="give a positive timedelta")
        if self.late and self.disorder is None:
            raise DefinitionError(
                "late= says how many values are late, not by how much",
                hint="add disorder=, the longest delay, which the pipeline's watermark allows",
            )

    @property
    def needs_times(self) -> bool:
        """Whether the order depends on the values' event times."""
        return self.disorder is not None

    def order(self, values: Sequence[T], time_of: Callable[[T], datetime] | None = None) -> list[T]:
        """The values in their order of arrival.

        >>> Arrival(repeated=0.3, seed=1).order(["a", "b", "c", "d", "e", "f"])
        ['a', 'b', 'c', 'd', 'e', 'f', 'b', 'e']
        """
        chance = Random(self.seed)
        if self.disorder is None:
            return _repeat_by_position(values, chance, self.repeated)
        if time_of is None:
            raise DefinitionError(
                "disorder= needs the values' event times", hint="name their field: event_time="
            )
        return self._by_time(values, time_of, self.disorder, chance)

    def _by_time(
        self, values: Sequence[T], time_of: Callable[[T], datetime], disorder: timedelta, chance: Random
    ) -> list[T]:
        """Each value arrives at its event time plus a delay below `disorder`; a repetition between that and the limit."""
        late = set(chance.sample(range(len(values)), round(self.late * len(values))))
        twice = set(chance.sample(range(len(values)), round(self.repeated * len(values))))
        arrivals: list[tuple[datetime, int, T]] = []
        for number, value in enumerate(values):
            low, high = (0.5, 0.99) if number in late else (0.0, 0.5 if self.late else 0.99)
            share, at = chance.uniform(low, high), time_of(value)
            arrivals.append((at + share * disorder, 2 * number, value))
            if number in twice:
                arrivals.append((at + chance.uniform(share, 0.99) * disorder, 2 * number + 1, value))
        return [value for _, _, value in sorted(arrivals, key=lambda arrival: arrival[:2])]


def _repeat_by_position(values: Sequence[T], chance: Random, share: float) -> list[T]:
    arrivals: list[tuple[float, int, T]] = [(n, 2 * n, value) for n, value in enumerate(values)]
    for number in chance.sample(range(len(values)), round(share * len(values))):
        arrivals.append((chance.uniform(number, len(values)), 2 * number + 1, values[number]))
    return [value for _, _, value in sorted(arrivals, key=lambda arrival: arrival[:2])]


def halves(values: Sequence[T]) -> list[Sequence[T]]:
    """The values in two parts, so that what a pipeline keeps from batch to batch is carried over once.

    >>> halves([1, 2, 3]), halves([1])
    ([[1, 2], [3]], [[1], []])
    """
    middle = (len(values) + 1) // 2
    return [values[:middle], values[middle:]]


def event_times(value_type: type[Any], event_time: str | None, topic: str) -> Callable[[Any], datetime]:
    """A function from a value to its event time: of the named field, or of its only datetime field."""
    from gearshift.schemas.shapes import OptionalOf, Scalar, describe

    times = [
        field.name
        for field in describe(value_type).fields
        if (field.shape.item if isinstance(field.shape, OptionalOf) else field.shape) is Scalar.TIMESTAMP
    ]
    name = event_time or (times[0] if len(times) == 1 else None)
    if name is None or name not in times:
        known = ", ".join(times)
        raise DefinitionError(
            f"{value_type.__name__} has {'no field ' + event_time if event_time else str(len(times)) + ' datetime fields'}",
            hint=f"name the event time with event_time=: {known}"
            if times
            else "add a datetime field to the value",
            topic=topic,
        )

    def time_of(value: Any) -> datetime:
        found: datetime | None = getattr(value, name)
        if found is None:
            raise DefinitionError(
                f"a value has no {name}", hint="disorder= needs it in every value", topic=topic
            )
        return found

    return time_of
