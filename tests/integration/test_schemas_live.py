"""A topic that holds several schema versions at once, and one that gets a new version while it is read."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

import gearshift as gs
from gearshift.runner.runner import Runner
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
        connection = runner.engine.connection
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
        ledger = runner.drivers["copy"].books.ledger
        assert ledger.gap == 0
        assert list(read(connection, readings.dead_letters)) == []
        assert any("schema id" in stretch.why for stretch in ledger.stretches)
