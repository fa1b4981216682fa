"""A topic that holds several schema versions at once, and one that gets a new version while it is read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from pyspark.sql import DataFrame

import gearshift as gs
from gearshift.freshness import Gear
from gearshift.runner.runner import Runner
from gearshift.schemas import Registry, pack
from gearshift.settings import Settings
from gearshift.topics import Producer, read
from tests.flow import values
from tests.support import eventually


@dataclass
class Reading:
    meter: str
    load: float


OldReading = Reading


@dataclass
class NewReading:
    meter: str
    load: float
    unit: str = "kW"


NewReading.__name__ = NewReading.__qualname__ = "Reading"


def test_a_schema_registered_while_a_pipeline_runs_costs_no_record(unique: str, settings: Settings) -> None:
    app = gs.App(unique)
    readings = app.topic(f"{unique}-readings", value=OldReading, key="meter", partitions=2)
    copies = app.topic(f"{unique}-copies", value=OldReading, key="meter", partitions=2)

    @app.pipeline(source=readings, to=copies, gear="real-time")
    def copy(readings: DataFrame) -> DataFrame:
        return readings

    evolved = gs.App(unique).topic(readings.name, value=NewReading, key="meter", partitions=2)
    with Runner(app, settings) as runner:
        connection = runner.context.connection
        with Producer(connection) as producer:
            for number in range(100):
                producer.send(readings, OldReading(f"old-{number}", 1.0))
        eventually(lambda: len(values(connection, copies)) >= 100, every=0.5)
        with Producer(connection) as old, Producer(connection) as new:
            for number in range(100):
                new.send(evolved, NewReading(f"new-{number}", 2.0, "W"))
                old.send(readings, OldReading(f"old-{100 + number}", 1.0))
        wanted = {f"old-{number}" for number in range(200)} | {f"new-{number}" for number in range(100)}
        eventually(
            lambda: {reading.meter for reading in values(connection, copies)} == wanted,
            every=0.5,
        )
        ledger = runner.supervisors["copy"].ledger
        assert ledger.gap == 0
        assert list(read(connection, readings.dead_letters)) == []
        assert any("schema id" in run.why for run in ledger.runs)


def test_unknown_schema_ids_cost_no_valid_record_in_any_gear(unique: str, settings: Settings) -> None:
    """Garbage ids are asked of the registry once, a version registered after them is read, and a batch gets through."""
    app = gs.App(unique)
    readings = app.topic(f"{unique}-readings", value=OldReading, key="meter", partitions=2)
    copies = {
        gear: app.topic(f"{unique}-{gear}", value=OldReading, key="meter", partitions=2)
        for gear in ("near-real-time", "real-time", "batch")
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

    evolved = gs.App(unique).topic(readings.name, value=NewReading, key="meter", partitions=2)
    letters: Counter[str] = Counter()

    def dead() -> Counter[str]:
        letters.clear()
        for letter in read(runner.context.connection, readings.dead_letters):
            letters[(letter.header("__connect.errors.connector.name") or b"").decode().partition(".")[2]] += 1
        return letters

    def meters(gear: str) -> set[str]:
        return {reading.meter for reading in values(runner.context.connection, copies[gear])}

    with Runner(app, settings) as runner:
        connection = runner.context.connection
        with Registry(connection) as registry, Producer(connection) as producer:
            first = registry.register(readings)
            eventually(
                lambda: all(
                    runner.supervisors[name].condition.state in ("running", "waiting")
                    for name in runner.supervisors
                )
            )
            producer.send(readings, OldReading("old", 1.0))
            for number in range(20):  # ids that this registry may give out one day
                producer.send_bytes(readings.name, pack(first + 50_000 + number, b"\x02a12345678"))
            producer.flush()
            live = ("near_real_time", "real_time")
            eventually(lambda: all(dead()[name] == 20 for name in live), every=0.5)
            restarts = {name: runner.supervisors[name].condition.restarts for name in live}
            assert max(restarts.values()) <= 1, restarts
            with Producer(connection) as new:
                for number in range(50):
                    new.send(evolved, NewReading(f"new-{number}", 2.0, "W"))
            wanted = {"old"} | {f"new-{number}" for number in range(50)}
            eventually(
                lambda: all(meters(gear) == wanted for gear in ("near-real-time", "real-time")), every=0.5
            )
            assert {name: dead()[name] for name in live} == dict.fromkeys(live, 20)
            restarts = {name: runner.supervisors[name].condition.restarts for name in live}
            assert max(restarts.values()) <= 2, restarts

            runner.shift("batch", Gear.BATCH)
            assert meters("batch") == wanted
            eventually(lambda: dead()["batch"] == 20, every=0.5)
            for supervisor in runner.supervisors.values():
                assert supervisor.ledger.gap == 0
