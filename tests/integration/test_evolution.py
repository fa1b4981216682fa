"""A type that changes as types do, under running pipelines of every gear and a running delivery, in Avro and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import pytest
from pyspark.sql import DataFrame

import gearshift as gs
from gearshift.connection import Connection
from gearshift.definitions import Format, Topic
from gearshift.freshness import Gear
from gearshift.runner.runner import Runner
from gearshift.schemas import Registry
from gearshift.settings import Settings
from gearshift.topics import Admin, Producer, read
from tests.flow import committed_values, values
from tests.support import eventually


@dataclass
class First:
    meter: str
    load: int
    note: str
    room: str


@dataclass
class Added:
    meter: str
    load: int
    note: str
    room: str
    unit: str = "kW"


@dataclass
class MadeOptional:
    meter: str
    load: int
    note: str
    room: str | None
    unit: str = "kW"


@dataclass
class Renamed:
    meter_id: Annotated[str, gs.Alias("meter")]
    load: int
    note: str
    room: str | None
    unit: str = "kW"


@dataclass
class Widened:
    meter_id: Annotated[str, gs.Alias("meter")]
    load: float
    note: str
    room: str | None
    unit: str = "kW"


@dataclass
class Removed:
    meter_id: Annotated[str, gs.Alias("meter")]
    load: float
    room: str | None
    unit: str = "kW"


@dataclass
class Later:
    meter_id: Annotated[str, gs.Alias("meter")]
    load: float
    room: str | None
    unit: str = "kW"
    more: list[int] | None = None


for each in (First, Added, MadeOptional, Renamed, Widened, Removed, Later):
    each.__name__ = each.__qualname__ = "Reading"

Made = tuple[type[Any], tuple[Any, ...], tuple[str, float, str | None, str]]
"""A version, the values of one of its records after its meter, and what they mean today."""
VERSIONS: list[Made] = [
    (First, (1, "n", "hall"), ("", 1.0, "hall", "kW")),
    (Added, (2, "n", "hall", "W"), ("", 2.0, "hall", "W")),
    (MadeOptional, (3, "n", None, "W"), ("", 3.0, None, "W")),
    (Renamed, (4, "n", None), ("", 4.0, None, "kW")),
    (Widened, (5.5, "n", "attic"), ("", 5.5, "attic", "kW")),
    (Removed, (6.5, None, "VA"), ("", 6.5, None, "VA")),
]


@pytest.mark.parametrize("format", ["avro", "json"])
def test_every_version_is_read_as_todays_in_every_gear_and_by_a_delivery(
    format: Format,  # noqa: A002 - the word users know
    unique: str,
    settings: Settings,
    connection: Connection,
) -> None:
    name = f"{unique}-readings"

    def topic_of(version: type[Any]) -> Topic:
        key = (
            "meter_id"
            if hasattr(version, "__annotations__") and "meter_id" in version.__annotations__
            else "meter"
        )
        return gs.App(unique).topic(name, value=version, key=key, partitions=2, format=format)

    app = gs.App(unique)
    readings = app.topic(name, value=Removed, key="meter_id", partitions=2, format=format)
    copies = {
        gear: app.topic(f"{unique}-{gear}", value=Removed, key="meter_id", partitions=2, format=format)
        for gear in ("near-real-time", "real-time", "batch", "delivered")
    }

    @app.pipeline(source=readings, to=copies["near-real-time"], gear="near-real-time", freshness="10 seconds")
    def near_real_time(readings: DataFrame) -> DataFrame:
        return readings

    @app.pipeline(source=readings, to=copies["real-time"], gear="real-time", freshness="1 second")
    def real_time(readings: DataFrame) -> DataFrame:
        return readings

    @app.pipeline(source=readings, to=copies["batch"], gear="batch", freshness="1 day")
    def batch(readings: DataFrame) -> DataFrame:
        return readings

    @app.delivery(readings, group_id=f"{unique}-copy", to=copies["delivered"])
    def deliver(record: gs.Record[Removed]) -> Removed:
        return record.value

    expected: set[tuple[Any, ...]] = set()

    def send(version: type[Any], given: tuple[Any, ...], meant: Any, when: str) -> None:
        meter = f"{when}-{len(expected)}"
        with Producer(connection) as producer:
            producer.send(topic_of(version), version(meter, *given))
        expected.add((meter, *meant[1:]))

    def found(gear: str) -> set[tuple[Any, ...]]:
        rows = (committed_values if gear == "delivered" else values)(connection, copies[gear])
        return {(row.meter_id, row.load, row.room, row.unit) for row in rows}

    with Registry(connection) as registry, Admin(connection) as admin:
        admin.ensure([readings])
        for version, given, meant in VERSIONS:
            registry.register(topic_of(version))
            send(version, given, meant, "before")
    with Runner(app, settings) as runner:
        for gear in ("near-real-time", "real-time", "delivered"):
            eventually(lambda gear=gear: found(gear) == expected, every=0.5, within=timedelta(minutes=2))
        for version, given, meant in reversed(VERSIONS):
            send(version, given, meant, "after")
        send(Later, (7.5, None, "W", [1]), ("", 7.5, None, "W"), "newer than the reader")
        for gear in ("near-real-time", "real-time", "delivered"):
            eventually(lambda gear=gear: found(gear) == expected, every=0.5, within=timedelta(minutes=2))
        runner.shift("batch", Gear.BATCH)
        assert found("batch") == expected
        assert list(read(connection, readings.dead_letters)) == []
        for supervisor in runner.supervisors.values():
            assert supervisor.ledger.gap == 0
