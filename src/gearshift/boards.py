"""What a user declares of a board: its panels, each with what it shows and how.

Panels have no slots: dataclasses with slots have no zero-argument `super`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from string import Formatter
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from gearshift.definitions import Location, Table, Topic

Kind = Literal["number", "series", "leaderboard", "table", "candles", "feed", "zones"]
How = Literal["count", "sum", "mean", "min", "max", "latest"]
Level = Literal["info", "warning", "error"]
Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class Panel:
    """One panel of a board, from a topic's records or a table's rows."""

    kind: ClassVar[Kind]

    source: Topic | Table
    _: KW_ONLY
    title: str | None = None
    """What is above the panel; None for the source's name."""
    where: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])
    """Shows only rows with these values."""

    @property
    def named(self) -> dict[str, str]:
        """The fields that the panel names, by the parameter that names each."""
        return {f"where={{{name!r}: …}}": name for name in self.where}


@dataclass(frozen=True)
class Keyed(Panel):
    """A panel of the latest row of each key."""

    _: KW_ONLY
    key: str | tuple[str, ...] = ()
    """The fields that tell rows apart; () for the topic's key. A table's rows are all shown."""
    newest: str | None = None
    """A field: only the rows with its highest value are shown, such as those of the latest window."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The fields that tell rows apart."""
        declared = (self.key,) if isinstance(self.key, str) else self.key
        topic_key = getattr(self.source, "key", None)
        return declared or ((topic_key,) if isinstance(topic_key, str) else ())

    @property
    def named(self) -> dict[str, str]:
        """The fields that the panel names."""
        keys = (self.key,) if isinstance(self.key, str) else self.key
        newest = {} if self.newest is None else {"newest": self.newest}
        return {**super().named, **{f"key={name!r}": name for name in keys}, **newest}


@dataclass(frozen=True)
class Number(Panel):
    """One number: how many rows there are, or a field's sum, mean, extreme or latest value."""

    kind: ClassVar[Kind] = "number"

    _: KW_ONLY
    value: str | None = None
    how: How | None = None
    """None for `latest` with a value, and for `count` without one."""
    unit: str = ""
    today: bool = False
    """Counts only records since midnight in the app's time zone."""
    key: str | tuple[str, ...] = ()
    """With a key, only the latest row of each counts; () for all records."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The fields that tell rows apart."""
        return (self.key,) if isinstance(self.key, str) else self.key

    @property
    def computes(self) -> How:
        """How the number comes from the rows."""
        return self.how or ("count" if self.value is None else "latest")

    @property
    def named(self) -> dict[str, str]:
        """The fields that the panel names."""
        value = {} if self.value is None else {"value": self.value}
        return {**super().named, **{f"key={name!r}": name for name in self.keys}, **value}


@dataclass(frozen=True)
class Series(Panel):
    """A line over time: a field's mean, sum, extreme or latest value per step, or how many rows there are."""

    kind: ClassVar[Kind] = "series"

    _: KW_ONLY
    value: str | None = None
    by: str | None = None
    """A field: one line for each of its values."""
    at: str | None = None
    """The field with the time; None for the time of the record."""
    how: How | None = None
    """None for `mean` with a value, and for `count` without one."""
    step: str = "1 second"
    unit: str = ""

    @property
    def computes(self) -> How:
        """How a point comes from the rows of its step."""
        return self.how or ("count" if self.value is None else "mean")

    @property
    def named(self) -> dict[str, str]:
        """The fields that the panel names."""
        own = {"value": self.value, "by": self.by, "at": self.at}
        return {**super().named, **{name: given for name, given in own.items() if given is not None}}


@dataclass(frozen=True)
class Leaderboard(Keyed):
    """The rows with the highest values; equal values share a place."""

    kind: ClassVar[Kind] = "leaderboard"

    _: KW_ONLY
    by: str
    label: str
    top: int = 10

    @property
    def named(self) -> dict[str, str]:
        """The fields that the panel names."""
        return {**super().named, "by": self.by, "label": self.label}


@dataclass(frozen=True)
class TableView(Keyed):
    """Rows and columns."""

    kind: ClassVar[Kind] = "table"

    _: KW_ONLY
    columns: tuple[str, ...]
    order_by: str | None = None
    """The column that orders the rows, highest first; None for the order in which they changed, latest first."""
    top: int = 20

    @property
    def named(self) -> dict[str, str]:
        """The fields that the panel names."""
        order = {} if self.order_by is None else {"order_by": self.order_by}
        return {**super().named, **{f"columns={name!r}": name for name in self.columns}, **order}


@dataclass(frozen=True)
class Candles(Keyed):
    """Bars of prices: open, high, low, close and volume."""

    kind: ClassVar[Kind] = "candles"

    _: KW_ONLY
    at: str = "start"
    open: str = "open"
    high: str = "high"
    low: str = "low"
    close: str = "close"
    volume: str | None = None
    top: int = 120
    """The number of bars, the latest."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The fields that tell bars apart: the key and the time."""
        return tuple(dict.fromkeys((*super().keys, self.at)))

    @property
    def named(self) -> dict[str, str]:
        """The fields that the panel names."""
        own = {name: getattr(self, name) for name in ("at", "open", "high", "low", "close", "volume")}
        return {**super().named, **{name: given for name, given in own.items() if given is not None}}


@dataclass(frozen=True)
class Zones(Keyed):
    """Places with a number each, and how many there is room for."""

    kind: ClassVar[Kind] = "zones"

    _: KW_ONLY
    name: str
    value: str
    capacity: str | float | Mapping[str, float] | None = None
    """A field, one number for all, or a number by the zone's name."""

    @property
    def named(self) -> dict[str, str]:
        """The fields that the panel names."""
        capacity = {"capacity": self.capacity} if isinstance(self.capacity, str) else {}
        return {**super().named, "name": self.name, "value": self.value, **capacity}


@dataclass(frozen=True)
class Feed(Panel):
    """The latest rows as lines of text."""

    kind: ClassVar[Kind] = "feed"

    _: KW_ONLY
    text: str
    """A line with fields in braces, such as `{meter_id}: {load_kw} kW`."""
    at: str | None = None
    """The field with the time; None for the time of the record."""
    level: Level = "info"
    top: int = 50

    @property
    def named(self) -> dict[str, str]:
        """The fields that the panel names."""
        text = {f"text={{{name}}}": name for _, name in parts_of(self.text) if name is not None}
        return {**super().named, **text, **({} if self.at is None else {"at": self.at})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A page of the console: panels that show what an app's topics and tables hold."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    defined_at: Location

    @property
    def by_name(self) -> dict[str, Panel]:
        """The panels by names that are unique within the board, such as `number-1`."""
        return {f"{panel.kind}-{place}": panel for place, panel in enumerate(self.panels, 1)}


def parts_of(text: str) -> list[tuple[str, str | None]]:
    """A line of a feed as pairs of text and the field that follows it; ValueError for all but plain fields.

    >>> parts_of("{meter_id}: {load_kw} kW")
    [('', 'meter_id'), (': ', 'load_kw'), (' kW', None)]
    """
    found: list[tuple[str, str | None]] = []
    for words, name, specification, conversion in Formatter().parse(text):
        if name is not None and (not name.isidentifier() or specification or conversion):
            raise ValueError(f"{{{name}{'!' + conversion if conversion else ''}…}} is not just a field")
        found.append((words, name))
    return found
