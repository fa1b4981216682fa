"""What publishing asks of Hive's metastore; who speaks to a real one is in the pipelines, beside Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

Values = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveTable:
    """What a metastore says about a table."""

    name: str
    columns: tuple[tuple[str, str], ...]
    partitioned_by: tuple[tuple[str, str], ...] = ()
    location: str
    properties: Mapping[str, str] = field(default_factory=dict[str, str])


class Metastore(Protocol):
    """One database of a metastore; every call is one transaction of it."""

    @property
    def database(self) -> str: ...

    def table(self, name: str) -> HiveTable | None:
        """A table, or None where there is none."""
        ...

    def create(self, table: HiveTable) -> None:
        """Add an external table, and its database if that is missing."""
        ...

    def alter(self, table: HiveTable) -> None:
        """Change columns, location and properties of a table, at one instant."""
        ...

    def drop(self, name: str) -> None:
        """Forget a table; its files stay."""
        ...

    def partitions(self, name: str) -> list[Values]:
        """The values of all partitions of a table."""
        ...

    def add(self, table: HiveTable, partitions: Iterable[Values], location: str) -> None:
        """Add partitions, all at one location; those that are there stay as they are."""
        ...

    def move(self, table: HiveTable, locations: Mapping[Values, str]) -> None:
        """Give partitions that are there new locations, all of them at one instant."""
        ...

    def remove(self, table: HiveTable, partitions: Iterable[Values]) -> None:
        """Forget partitions; their files stay."""
        ...
