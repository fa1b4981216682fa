"""Which schema ids stop a query, which are ignored, and when the registry is asked again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame

import gearshift as gs
from gearshift.errors import QueryError, RegistryUnreachableError
from gearshift.pipelines.records import schema_ids as known_schemas
from gearshift.pipelines.records.schema_ids import KnownSchemas
from tests.flow import Event


class Known:
    """The parts of a registry and of a topic that KnownSchemas uses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ids = [3]
        self.end = 10
        self.away = False
        self.now = 100.0
        monkeypatch.setattr(known_schemas, "time", SimpleNamespace(monotonic=lambda: self.now))
        app = gs.App("known")
        events = app.topic("events", value=Event, key="key", partitions=1)
        copies = app.topic("copies", value=Event, key="key", partitions=1)

        @app.pipeline(source=events, to=copies, gear="real-time")
        def copy(events: DataFrame) -> DataFrame:
            return events

        admin = SimpleNamespace(end_offsets=lambda _: {("events", 0): self.end})
        self.elsewhere: set[int] = set()
        registry: Any = SimpleNamespace(versions=self.versions, schema=self.schema)
        context: Any = SimpleNamespace(admin=admin)
        self.schemas = KnownSchemas(context, app.graph.pipelines["copy"], registry)

    def versions(self, _subject: str) -> dict[int, Any]:
        if self.away:
            raise RegistryUnreachableError("no schema registry answers")
        return {id_: SimpleNamespace(text=f"{id_}", format="avro") for id_ in self.ids}

    def schema(self, id_: int) -> Any:
        return SimpleNamespace(text=f"{id_}", format="avro") if id_ in {*self.ids, *self.elsewhere} else None

    def read(self) -> tuple[set[int], set[int], int]:
        found = self.schemas.read(0)["events"]
        return set(found.writers), set(found.refused), found.asked_until[0]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Known:
    return Known(monkeypatch)


def stopped_at(id_: int) -> QueryError:
    return QueryError(f"the query failed: GEARSHIFT_UNKNOWN_SCHEMA_ID={id_};")


def test_a_refused_id_counts_for_itself_alone_and_all_that_lies_before_it_is_judged(known: Known) -> None:
    assert known.read() == ({3}, set(), 10)
    known.end = 30
    assert known.schemas.learn(stopped_at(50_004)) == "schema id 50004 is not registered"
    assert known.read() == ({3}, {50_004}, 30)
    known.ids.append(5)
    assert known.schemas.learn(stopped_at(5)) == "schema id 5"
    assert known.read() == ({3, 5}, {50_004}, 30)


def test_without_news_the_versions_stay_so_that_a_shift_keeps_its_plan(known: Known) -> None:
    before = known.schemas.read(0)
    known.end = 99
    assert known.schemas.read(0) == before


def test_a_refused_id_is_asked_for_again_every_few_seconds_and_read_once_it_is_registered(
    known: Known,
) -> None:
    known.schemas.learn(stopped_at(5))
    known.read()
    known.ids.append(5)
    assert known.schemas.find_registered() is None  # asked just now
    known.now += 6
    known.away = True
    assert known.schemas.find_registered() is None  # the registry does not answer, and the query continues
    known.away = False
    known.now += 6
    assert known.schemas.find_registered() == 5
    assert known.read()[:2] == ({3, 5}, set())


def test_what_stopped_for_another_reason_is_not_answered(known: Known) -> None:
    assert known.schemas.learn(QueryError("the query failed: / by zero")) is None


def test_refused_ids_do_not_grow_without_end(known: Known) -> None:
    known.schemas.refuse(range(10, 5000))
    refused = known.read()[1]
    assert len(refused) == 1000 and 4999 in refused


def test_an_id_that_is_registered_under_another_subject_is_read_too(known: Known) -> None:
    known.elsewhere.add(8)
    assert known.schemas.learn(stopped_at(8)) == "schema id 8"
    assert known.read()[0] == {3, 8}
    assert known.schemas.learn(stopped_at(8)) == "schema id 8 is not registered", (
        "it would stop the query forever"
    )
