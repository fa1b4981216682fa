"""The rules that an app needs on a Kafka with ACLs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import gearshift as gs
from gearshift.topics.access.denied import not_authorized
from gearshift.topics.access.rules import Rule, rules_of


@dataclass
class Reading:
    """A value."""

    meter_id: str
    load_kw: float


def lines(app: gs.App) -> set[str]:
    """The rules without what is the same in each."""
    return {
        rule.line("User:me").removeprefix("--add --allow-principal User:me ") for rule in rules_of(app.graph)
    }


def operations(app: gs.App, resource: str, name: str) -> set[str]:
    """What an app may do with one resource."""
    found = [rule for rule in rules_of(app.graph) if (rule.resource, rule.name) == (resource, name)]
    assert len(found) <= 1
    return set(found[0].operations) if found else set()


@pytest.fixture
def app() -> gs.App:
    return gs.App("meter")


def test_an_app_without_declarations_needs_nothing(app: gs.App) -> None:
    assert rules_of(app.graph) == []


def test_a_pipeline_reads_one_topic_writes_the_other_and_mirrors_its_offsets(app: gs.App) -> None:
    readings = app.topic("readings", value=Reading)
    alerts = app.topic("alerts", value=Reading)

    @app.pipeline(readings, to=alerts, freshness="1 second")
    def alert(readings: Any) -> Any:
        return readings

    create = "--operation Create --operation DescribeConfigs --operation Read --operation Write"
    assert lines(app) == {
        f"{create} --topic readings",
        f"{create} --topic readings.dlq",
        f"{create} --topic alerts",
        f"{create} --topic alerts.dlq",
        "--operation Write --transactional-id gearshift.dlq.readings",
        "--operation Write --transactional-id gearshift.dlq.alerts",
        "--operation Read --group meter.alert",
        "--operation Read --group gearshift-meter.alert- --resource-pattern-type prefixed",
    }


def test_an_external_topic_is_neither_created_nor_written(app: gs.App) -> None:
    readings = app.topic("readings", value=Reading, external=True)
    history = app.table("history")

    @app.pipeline(readings, to=history, freshness="1 minute")
    def keep(readings: Any) -> Any:
        return readings

    assert operations(app, "topic", "readings") == {"Describe", "DescribeConfigs", "Read"}
    assert "Create" in operations(app, "topic", "readings.dlq")
    assert "Create" in operations(app, "topic", "history.table.dlq")


def test_an_external_target_is_written_but_not_created(app: gs.App) -> None:
    readings = app.topic("readings", value=Reading)
    alerts = app.topic("alerts", value=Reading, external=True)

    @app.delivery(readings, to=alerts)
    def alert(record: gs.Record[Reading]) -> Reading:
        return record.value

    assert operations(app, "topic", "alerts") == {"Describe", "DescribeConfigs", "Write"}


def test_a_delivery_to_a_topic_has_a_transactional_id_for_each_of_its_consumers(app: gs.App) -> None:
    readings = app.topic("readings", value=Reading, key="meter_id")
    alerts = app.topic("alerts", value=Reading)

    @app.delivery(readings, to=alerts, group_id="own group", once_by="meter_id")
    def alert(record: gs.Record[Reading]) -> Reading:
        return record.value

    assert "--operation Write --transactional-id meter.alert. --resource-pattern-type prefixed" in lines(app)
    assert "--operation Read --group 'own group'" in lines(app)
    assert operations(app, "topic", "readings.own group.once") >= {"Create", "Read", "Write"}
    assert operations(app, "topic", "readings.replay") >= {"Create", "Read", "Write"}


def test_a_delivery_to_nothing_needs_no_transactions(app: gs.App) -> None:
    readings = app.topic("readings", value=Reading)

    @app.delivery(readings)
    def text(record: gs.Record[Reading]) -> None: ...

    assert not any(rule.resource == "transactional-id" and rule.prefixed for rule in rules_of(app.graph))
    assert "Write" not in operations(app, "topic", "readings")


def test_sources_write_their_topic_and_their_marks_in_transactions(app: gs.App, tmp_path: Path) -> None:
    readings = app.topic("readings", value=Reading)

    @app.source(to=readings, rate=1)
    def simulate() -> Iterator[Reading]:
        yield Reading("m1", 1.0)

    source = app.graph.sources["simulate"]
    assert "Write" in operations(app, "topic", "readings")
    assert operations(app, "topic", source.marks) >= {"Create", "Read", "Write"}
    assert operations(app, "transactional-id", source.marks) == {"Write"}


def test_nothing_is_needed_on_the_cluster(app: gs.App) -> None:
    app.topic("readings", value=Reading)
    assert {rule.resource for rule in rules_of(app.graph)} <= {"topic", "group", "transactional-id"}


def test_an_error_has_the_line_that_adds_the_rule() -> None:
    error = str(not_authorized("User:CN=my app", "Write", "transactional-id", "meter.alert.1"))
    assert error.endswith(Rule("transactional-id", "meter.alert.1", ("Write",)).line("User:CN=my app"))
    assert "--allow-principal 'User:CN=my app'" in error
    assert "--cluster" in str(not_authorized("User:me", "IdempotentWrite", "cluster"))
