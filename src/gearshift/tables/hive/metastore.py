"""The protocol of a Hive metastore; `spark/hive/metastore.py` implements it with the client in Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

Values = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveTable:
    """A table as a metastore describes it."""

    name: str
    columns: tuple[tuple[str, str], ...]
    partitioned_by: tuple[tuple[str, str], ...] = ()
    location: str
    properties: Mapping[str, str] = field(default_factory=dict[str, str])


class Metastore(Protocol):
    """One database of a metastore; every call is one transaction."""

    @property
    def database(self) -> str: ...

    def table(self, name: str) -> HiveTable | None:
        """A table; None if it does not exist."""
        ...

    def create(self, table: HiveTable) -> None:
        """Create an external table, and its database if that does not exist."""
        ...

    def alter(self, table: HiveTable) -> None:
        """Change the columns, location and properties of a table atomically."""
        ...

    def drop(self, name: str) -> None:
        """Drop a table and keep its files."""
        ...

    def partitions(self, name: str) -> list[Values]:
        """The values of all partitions of a table."""
        ...

    def add(self, table: HiveTable, partitions: Iterable[Values], location: str) -> None:
        """Add partitions, all at one location; existing ones stay as they are."""
        ...

    def move(self, table: HiveTable, locations: Mapping[Values, str]) -> None:
        """Set the locations of existing partitions, all of them atomically."""
        ...

    def remove(self, table: HiveTable, partitions: Iterable[Values]) -> None:
        """Drop partitions and keep their files."""
        ...
