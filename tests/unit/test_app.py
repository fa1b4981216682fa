"""What an app declares, and the file and line of invalid declarations."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import pytest

import gearshift as gs
from gearshift.errors import DefinitionError
from gearshift.freshness import Gear


@dataclass
class Reading:
    meter_id: str
    load_kw: float


def anything(frame: Any) -> Any:
    return frame


def declared(app: gs.App) -> tuple[gs.Topic, gs.Table]:
    return app.topic("readings", value=Reading, key="meter_id"), app.table("history")


def line_of(text: str) -> int:
    """The line of this file that holds a text."""
    lines = inspect.getsource(inspect.getmodule(line_of)).splitlines()  # type: ignore[arg-type]
    return next(number for number, line in enumerate(lines, 1) if text in line)


def refused(declare: Callable[[], object], mark: str) -> DefinitionError:
    """The error of a declaration, which names the line that holds the mark."""
    with pytest.raises(DefinitionError) as caught:
        declare()
    error = caught.value
    assert (error.file, error.line) == ("tests/unit/test_app.py", line_of(f"# {mark}")), str(error)
    assert error.hint
    return error


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config) -> None:
    monkeypatch.chdir(pytestconfig.rootpath)


def test_names_of_apps_and_their_zones_are_checked() -> None:
    def named() -> object:
        return gs.App("smart meter")  # a name with a blank

    def zoned() -> object:
        return gs.App("smart-meter", timezone="Europe/Berln")  # a wrong zone

    assert "invalid app name 'smart meter'" in refused(named, "a name with a blank").what
    assert "Europe/Berlin" in (refused(zoned, "a wrong zone").hint or "")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": "no blanks"}, "invalid topic name 'no blanks'"),
        ({"name": ".."}, "invalid topic name '..'"),
        ({"name": "x" * 246}, "invalid topic name"),
        ({"name": "history.table"}, "would share its dead-letter topic with a table"),
        ({"value": dict}, "is not a dataclass"),
        ({"value": Reading("a", 1)}, "is not a dataclass"),
        ({"key": "meter"}, "has no field 'meter'"),
        ({"partitions": 0}, "at least one partition"),
        ({"replicas": 0}, "at least one replica"),
        ({"format": "xml"}, "unknown format 'xml'"),
        ({"compatibility": "SIDEWAYS"}, "unknown compatibility 'SIDEWAYS'"),
    ],
)
def test_a_topic_that_cannot_be_is_refused_where_it_is_declared(wrong: dict[str, Any], words: str) -> None:
    options = {"name": "readings", "value": Reading, **wrong}

    def declare() -> object:
        return gs.App("app").topic(**options)  # a wrong topic

    assert words in refused(declare, "a wrong topic").what


def test_a_table_that_sql_could_not_name_is_refused() -> None:
    def declare() -> object:
        return gs.App("app").table("drop table;")  # a wrong table

    assert "invalid table name" in refused(declare, "a wrong table").what


def test_what_is_declared_twice_is_refused_with_the_place_of_the_first() -> None:
    app = gs.App("app")
    topic = app.topic("readings", value=Reading)  # the first topic
    table = app.table("history")  # the first table

    def topic_again() -> object:
        return app.topic("readings", value=Reading)  # the second topic

    def table_again() -> object:
        return app.table("history")  # the second table

    def pipeline_again() -> None:
        for _ in range(2):

            @app.pipeline(source=topic, to=table, freshness="1 minute")  # both pipelines
            def keep(readings: Any) -> Any:
                return readings

    def source_again() -> None:
        for _ in range(2):

            @app.source(to=topic)  # both sources
            def meters() -> Iterator[Reading]:
                yield Reading("a", 1)

    for declare, mark, first in (
        (topic_again, "the second topic", "the first topic"),
        (table_again, "the second table", "the first table"),
        (pipeline_again, "both pipelines", "both pipelines"),
        (source_again, "both sources", "both sources"),
    ):
        error = refused(declare, mark)
        assert "is declared twice" in error.what
        assert (
            error.hint
            == f"rename one of them; the first is at tests/unit/test_app.py:{line_of(f'# {first}')}"
        )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"freshness": None}, "neither freshness nor gear"),
        ({"freshness": "soon"}, "'soon' is not a duration"),
        ({"freshness": ""}, "'' is not a duration"),
        ({"gear": "turbo"}, "unknown gear 'turbo'"),
        ({"on_invalid": "ignore"}, "on_invalid='ignore'"),
        ({"parallelism": 0}, "parallelism=0"),
        ({"parallelism": 1001}, "parallelism=1001"),
        ({"parallelism": 2.5}, "parallelism=2.5"),
        ({"parallelism": True}, "parallelism=True"),
        ({"to": "history"}, "writes to 'history'"),
        ({"source": "readings"}, "reads from 'readings'"),
        ({"source": {"readings": "readings"}}, "reads from"),
        ({"source": {}}, "takes readings but its sources are nothing"),
    ],
)
def test_a_pipeline_that_cannot_be_is_refused_where_it_is_declared(wrong: dict[str, Any], words: str) -> None:
    app = gs.App("app")
    topic, table = declared(app)
    options = {"source": topic, "to": table, "freshness": "1 minute", **wrong}

    def declare() -> None:
        @app.pipeline(**options)  # a wrong pipeline
        def keep(readings: Any) -> Any:
            return readings

    assert words in refused(declare, "a wrong pipeline").what
    assert app.graph.pipelines == {}


def test_sources_and_parameters_must_agree() -> None:
    app = gs.App("app")
    topic, table = declared(app)

    def one_too_many() -> None:
        @app.pipeline(source=topic, to=table, freshness="1 minute")  # two parameters
        def keep(readings: Any, tariffs: Any) -> Any:
            return readings

    def named_otherwise() -> None:
        @app.pipeline(source={"r": topic, "t": table}, to=topic, freshness="1 minute")  # other names
        def keep(readings: Any, tariffs: Any) -> Any:
            return readings

    assert "one source but 2 parameters" in refused(one_too_many, "two parameters").what
    assert "takes readings, tariffs but its sources are r, t" in refused(named_otherwise, "other names").what


def test_what_is_no_function_is_refused_where_it_is_decorated() -> None:
    app = gs.App("app")
    topic, table = declared(app)

    def pipeline() -> object:
        return app.pipeline(source=topic, to=table, gear="batch")(functools.partial(anything))  # a partial

    def unnamed() -> object:
        return app.pipeline(source=topic, to=table, gear="batch")(lambda readings: readings)  # a lambda

    assert "is not a function" in refused(pipeline, "a partial").what
    assert "invalid pipeline name '<lambda>'" in refused(unnamed, "a lambda").what


def test_a_source_needs_a_rate_above_nothing() -> None:
    app = gs.App("app")
    topic, _ = declared(app)

    def declare() -> None:
        @app.source(to=topic, rate=0)  # a standing source
        def meters() -> Iterator[Reading]:
            yield Reading("a", 1)

    assert "rate=0" in refused(declare, "a standing source").what


def test_a_decorator_gives_the_very_function_back() -> None:
    app = gs.App("app")
    topic, table = declared(app)

    def meters() -> Iterator[Reading]:
        yield Reading("a", 1)

    assert app.pipeline(source=topic, to=table, freshness="1 hour")(anything) is anything
    assert app.source(to=topic, rate=5)(meters) is meters
    assert app.graph.sources["meters"].rate == 5
    assert anything(7) == 7


def test_several_sources_come_by_the_parameters_names_in_their_order() -> None:
    app = gs.App("app")
    topic, table = declared(app)

    @app.pipeline(source={"tariffs": table, "readings": topic}, to=topic, freshness="1 second")
    def bill(readings: Any, tariffs: Any) -> Any:
        return readings

    pipeline = app.graph.pipelines["bill"]
    assert list(pipeline.sources.items()) == [("readings", topic), ("tariffs", table)]
    assert (pipeline.topics, pipeline.tables) == ({"readings": topic}, {"tariffs": table})


def test_a_gear_overrides_what_the_freshness_says() -> None:
    app = gs.App("app")
    topic, table = declared(app)
    app.pipeline(source=topic, to=table, freshness="1 second", gear="batch")(anything)
    pipeline = app.graph.pipelines["anything"]
    assert (pipeline.gear, str(pipeline.freshness), str(pipeline.calendar)) == (
        Gear.BATCH,
        "1 second",
        "1 hour",
    )


def test_definitions_are_frozen_and_a_graph_is_of_its_moment() -> None:
    app = gs.App("app")
    topic, _ = declared(app)
    before = app.graph
    app.topic("later", value=Reading)
    assert "later" in app.graph.topics and "later" not in before.topics
    with pytest.raises(FrozenInstanceError):
        topic.name = "other"  # type: ignore[misc]


def test_two_apps_know_nothing_of_each_other() -> None:
    one, other = gs.App("one"), gs.App("other")
    one.topic("readings", value=Reading)
    other.topic("readings", value=Reading)
    assert one.graph.topics["readings"] is not other.graph.topics["readings"]


def test_an_external_topic_leaves_its_owners_decisions_alone() -> None:
    app = gs.App("orders")
    topic = app.topic("orders", value=Reading, key="meter_id", external=True, partitions=3)
    assert (topic.external, topic.compatibility, topic.partitions) == (True, "BACKWARD", 3)
    for options in ({"compatibility": "FULL"}, {"replicas": 3}, {"envelope": "debezium"}):
        with pytest.raises(DefinitionError, match="is external: its owner sets compatibility") as raised:
            app.topic("others", value=Reading, external=True, **options)  # type: ignore[arg-type]
        assert "leave out compatibility, replicas and envelope" in str(raised.value)
