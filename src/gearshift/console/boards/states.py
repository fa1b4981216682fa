"""What a panel keeps of the rows that it has seen, within bounds, and what it shows of them."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Protocol

from gearshift.boards import Feed, Keyed, Number, Panel, Series
from gearshift.console.boards.showing import show_rows
from gearshift.console.boards.values import Row, line, matches, moment, number
from gearshift.freshness import Freshness

MOST_KEYS = 10_000
MOST_POINTS = 600
_MOST_LINES = 10
_POINTS_PER_LINE = 120


class State(Protocol):
    """What one panel keeps."""

    def take(self, row: Row, at: datetime | None) -> None:
        """A row, and the time of its record."""
        ...

    def data(self) -> dict[str, Any]:
        """What the panel shows, as plain data."""
        ...


def state_of(panel: Panel, zone: tzinfo) -> State:
    """An empty state for a panel."""
    match panel:
        case Number() if not panel.keys:
            return Total(panel, zone)
        case Series():
            return Steps(panel, zone)
        case Feed():
            return Lines(panel, zone)
        case _:
            return LatestRows(panel, zone)


class LatestRows:
    """The latest row of each key; the ones that have not changed for longest make room."""

    def __init__(self, panel: Panel, zone: tzinfo) -> None:
        self._panel = panel
        self._zone = zone
        self._keys = panel.keys if isinstance(panel, Keyed | Number) else ()
        self._rows: OrderedDict[Any, Row] = OrderedDict()
        self._taken = 0

    def take(self, row: Row, at: datetime | None) -> None:
        """Replace the row with the same key."""
        self._taken += 1
        key: Any = tuple(repr(row.get(name)) for name in self._keys) if self._keys else self._taken
        self._rows[key] = row
        self._rows.move_to_end(key)
        if len(self._rows) > MOST_KEYS:
            self._rows.popitem(last=False)

    def data(self) -> dict[str, Any]:
        """What the panel shows of the rows that match."""
        panel = self._panel
        rows = [row for row in self._rows.values() if matches(row, panel.where)]
        if isinstance(panel, Number):
            values = [number(row.get(panel.value)) for row in rows] if panel.value is not None else []
            return {"value": aggregate(panel.computes, values, len(rows)), "unit": panel.unit}
        return show_rows(panel, rows, self._zone)


class Total:
    """A number of all rows, or of those of the day."""

    def __init__(self, panel: Number, zone: tzinfo) -> None:
        self._panel = panel
        self._zone = zone
        self._day: Any = None
        self._group = Group()
        self.before = 0
        """Rows that were there before the first one that was read."""

    def take(self, row: Row, at: datetime | None) -> None:
        """Count a row that matches."""
        if self._panel.today:
            day = at.astimezone(self._zone).date() if at is not None else None
            if day is None or day < self._today():
                return
            self._begin(day)
        if matches(row, self._panel.where):
            self._group.add(number(row.get(self._panel.value)) if self._panel.value is not None else None)

    def data(self) -> dict[str, Any]:
        """The number and its unit."""
        if self._panel.today:
            self._begin(self._today())
        value = self._group.value(self._panel.computes)
        if self._panel.computes == "count":
            value = (value or 0) + self.before
        return {"value": value, "unit": self._panel.unit}

    def _begin(self, day: Any) -> None:
        if self._day is not None and day > self._day:
            self._group, self.before = Group(), 0
        self._day = max(day, self._day or day)

    def _today(self) -> Any:
        return datetime.now(self._zone).date()


class Steps:
    """Points of one line or several, one per step of time."""

    def __init__(self, panel: Series, zone: tzinfo) -> None:
        self._panel = panel
        self._zone = zone
        self._step = Freshness.parse(panel.step).duration
        self._lines: dict[str, dict[int, Group]] = {}
        self._most = MOST_POINTS if panel.by is None else _POINTS_PER_LINE

    def take(self, row: Row, at: datetime | None) -> None:
        """Add a row to its step; further lines than the first ten are left out."""
        panel = self._panel
        when = moment(row.get(panel.at), self._zone) if panel.at is not None else at
        if when is None or not matches(row, panel.where):
            return
        value = number(row.get(panel.value)) if panel.value is not None else None
        if panel.value is not None and value is None:
            return
        name = "" if panel.by is None else str(row.get(panel.by))
        if name not in self._lines and len(self._lines) >= _MOST_LINES:
            return
        points = self._lines.setdefault(name, {})
        step = (when - datetime.min.replace(tzinfo=UTC)) // self._step
        if step not in points and len(points) >= self._most:
            oldest = min(points)
            if step < oldest:
                return
            del points[oldest]
        points.setdefault(step, Group()).add(value)

    def data(self) -> dict[str, Any]:
        """The points, oldest first."""
        lines = {name: self._points(points) for name, points in sorted(self._lines.items())}
        return {"lines": lines} if self._panel.by is not None else {"points": lines.get("", [])}

    def _points(self, points: dict[int, Group]) -> list[dict[str, Any]]:
        start = datetime.min.replace(tzinfo=UTC)
        return [
            {
                "at": (start + step * self._step).isoformat(),
                "value": points[step].value(self._panel.computes),
            }
            for step in sorted(points)
        ]


class Lines:
    """The latest rows as text."""

    def __init__(self, panel: Feed, zone: tzinfo) -> None:
        self._panel = panel
        self._zone = zone
        self._fill = line(panel.text, zone)
        self._items: deque[dict[str, Any]] = deque(maxlen=panel.top)

    def take(self, row: Row, at: datetime | None) -> None:
        """Add a row that matches."""
        panel = self._panel
        if matches(row, panel.where):
            when = moment(row.get(panel.at), self._zone) if panel.at is not None else at
            self._items.append(
                {
                    "at": when.isoformat() if when is not None else None,
                    "text": self._fill(row),
                    "level": panel.level,
                }
            )

    def data(self) -> dict[str, Any]:
        """The items, newest first."""
        return {"items": list(reversed(self._items))}


class Group:
    """Numbers of one group of rows: how many, their sum, extremes and the latest."""

    __slots__ = ("_high", "_latest", "_low", "_numbers", "_rows", "_sum")

    def __init__(self) -> None:
        self._rows = self._numbers = 0
        self._sum: float | int = 0
        self._low = self._high = self._latest = None

    def add(self, value: float | None) -> None:
        """Add a row, and its number if it has one."""
        self._rows += 1
        if value is None:
            return
        self._numbers += 1
        self._sum += value
        self._low = value if self._low is None else min(self._low, value)
        self._high = value if self._high is None else max(self._high, value)
        self._latest = value

    def value(self, how: str) -> float | int | None:
        """The group's number."""
        if how == "count":
            return self._rows
        if not self._numbers:
            return None
        mean = self._sum / self._numbers
        found = {"sum": self._sum, "mean": mean, "min": self._low, "max": self._high, "latest": self._latest}
        return number(found[how])


def aggregate(how: str, values: Iterable[float | None], rows: int) -> float | int | None:
    """The number of rows with these values.

    >>> aggregate("mean", [1, None, 3], 3), aggregate("count", [], 2)
    (2.0, 2)
    """
    if how == "count":
        return rows
    group = Group()
    for value in values:
        group.add(value)
    return group.value(how)


def reach(panel: Panel) -> timedelta | None:
    """How far back in time a panel looks; None if it is all there is."""
    if isinstance(panel, Series) and panel.at is None:
        most = MOST_POINTS if panel.by is None else _POINTS_PER_LINE
        return Freshness.parse(panel.step).duration * most
    return None
