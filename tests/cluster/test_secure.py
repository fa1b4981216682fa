"""The smart meter on a Kafka with TLS, SCRAM and ACLs, with no more rights than `gearshift acls` prints."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import gearshift as gs
from gearshift import tables
from gearshift.connection import Connection
from gearshift.errors import GearshiftError, LoginError, NotAuthorizedError
from gearshift.runner.deliveries.consumer import ThreadConsumer
from gearshift.schemas import Registry
from gearshift.settings import Settings, load
from gearshift.stack.lifecycle import up
from gearshift.topics import Admin, Producer, read
from gearshift.topics.access.rules import Rule, rules_of
from gearshift.topics.dead_letters.replay import discard
from gearshift.topics.transactions import TransactionalProducer
from tests import stories
from tests.cluster.secured import PRINCIPAL, Rules, refusal
from tests.command import GEARSHIFT
from tests.faults.processes import RunnerProcess
from tests.gateways.certificate import certificate
from tests.support import closed_port, eventually

STORY = stories.EXAMPLES / "smart_meter"
SOON = 10.0  # seconds

APP = """\
import sys
from dataclasses import dataclass

sys.path.insert(0, {story!r})
from smart_meter import LoadAlert, alerts, app, readings

import gearshift as gs

texted = app.topic("texted", value=LoadAlert, key="meter_id")
app.files("dropped", folder="dropped", to=readings, format="jsonl", quiet="1 second")
app.http("ingest", topics=[readings], port={port})


@app.delivery(alerts, to=texted, once_by=("meter_id", "read_at"))
def copy(alert: gs.Record[LoadAlert]) -> LoadAlert:
    \"\"\"Each alert once, in a transaction with its offset.\"\"\"
    return alert.value
"""


@dataclass
class Secured:
    """A secured stack."""

    settings: Settings
    folder: Path
    connection: Connection
    rules: Rules


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One broker with TLS, SCRAM and ACLs."""
    folder = tmp_path_factory.mktemp("secured")
    (folder / "gearshift.toml").write_text("secure = true\ncheckpoint_interval = '5 seconds'\n")
    settings = load(folder=folder, environ={})
    with up(settings) as stack:
        assert stack.superuser is not None
        yield Secured(settings, folder, stack.connection, Rules(stack.superuser))


def test_what_is_not_logged_in_gets_no_answer(secured: Secured) -> None:
    host, port = secured.connection.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), timeout=5) as plain:
        plain.sendall(b"\0\0\0\x0e\0\x03\0\x04\0\0\0\x01\0\0\0\0\0\0")
        plain.settimeout(5)
        answer = plain.recv(5)
    assert answer[:1] in (b"", b"\x15")  # closed, or an alert of TLS


def test_the_smart_meter_runs_in_three_gears_with_the_rules_that_acls_prints(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway_module = stories.load("smart_meter", "gateway")
    port = closed_port()
    app = secured.folder / "meter.py"
    app.write_text(APP.format(story=str(STORY), port=port), encoding="utf-8")
    (secured.folder / "dropped").mkdir()

    def command(*words: str) -> Any:
        done = subprocess.run(
            [GEARSHIFT, *words, "-o", "json"],
            cwd=secured.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def texts() -> list[Any]:
        return list(read(secured.connection, "texted"))

    with gateway_module.Gateway() as gateway:
        monkeypatch.setenv("SMS_URL", gateway.url)
        printed = command("acls", "meter.py")
        with RunnerProcess.of_file(secured.settings, secured.folder, "meter.py") as runner:
            assert runner.gears() == {
                "load_alerts": "real-time",
                "keep_history": "near-real-time",
                "monthly_bills": "batch",
            }
            granted = {(each.name, each.operation.name) for each in secured.rules.present()}
            assert granted == {
                (rule["name"], _constant(operation)) for rule in printed for operation in rule["operations"]
            }
            eventually(lambda: gateway.messages)
            for gear in ("near-real-time", "batch", "real-time"):
                assert runner.shift("load_alerts", gear)["after"] == gear
            before = len(gateway.messages)
            eventually(lambda: len(gateway.messages) > before)
            eventually(texts)
            reading = b'{"meter_id": "%s", "load_kw": 9.5, "read_at": "2026-01-01T00:00:00Z"}\n'
            (secured.folder / "dropped" / "one.jsonl").write_bytes(reading % b"meter-901")
            sent = urllib.request.Request(
                f"http://127.0.0.1:{port}/topics/meter-readings",
                data=reading % b"meter-902",
                headers={"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(sent, timeout=30) as answer:
                assert answer.status == 200
            with Producer(secured.connection) as producer:
                producer.send_bytes("meter-readings", b"garbage")
            for name in ("meter-901", "meter-902"):
                eventually(lambda name=name: any(name in message.text for message in gateway.messages))

            def letters() -> list[Any]:
                return [each for each in command("dlq", "list") if each.get("open")]

            eventually(letters, every=1)
            assert command("dlq", "discard", "meter-readings")
            groups = {each["group"] for each in command("group", "list")}
            assert groups >= {"sms-sender", "smart-meter.copy", "smart-meter.load_alerts"}
            assert command("group", "lag", "sms-sender")

            # A rule that is taken away stops the pipeline with its name, and the pipeline goes on with it.
            ours = Rule("topic", "meter-readings", ("Create", "DescribeConfigs", "Read", "Write"))
            secured.rules.revoke("topic", "meter-readings")
            wanted = Rule("topic", "meter-readings", ("Read",)).line(PRINCIPAL)
            described = Rule("topic", "meter-readings", ("Describe",)).line(PRINCIPAL)
            said = str(eventually(lambda: _error(command, "load_alerts"), every=0.5))
            assert wanted in said or described in said
            secured.rules.grant([ours])
            before = len(gateway.messages)
            eventually(lambda: len(gateway.messages) > before, every=0.5)
        assert all(entry["gap"] == 0 for entry in command("ledger"))
        kept = tables.sql(secured.settings.warehouse_uri, "SELECT count(*) FROM readings_history").rows
        assert kept[0][0] > 0


def _constant(operation: str) -> str:
    return {"DescribeConfigs": "DESCRIBE_CONFIGS"}.get(operation, operation.upper())


def _error(command: Callable[..., Any], pipeline: str) -> str | None:
    status = command("status")["runner"]
    (found,) = [each for each in status["pipelines"] if each["name"] == pipeline]
    return found["error"]


@dataclass
class Reading:
    """A value of the small app below."""

    meter: str
    load: float


@pytest.fixture(scope="module")
def small() -> gs.App:
    """A delivery from one topic to another."""
    app = gs.App("small")
    readings = app.topic("small-readings", value=Reading, key="meter")
    copies = app.topic("small-copies", value=Reading, key="meter")

    @app.delivery(readings, to=copies)
    def copy(reading: gs.Record[Reading]) -> Reading:
        return reading.value

    return app


@pytest.fixture
def every_rule(secured: Secured, small: gs.App) -> list[Rule]:
    """The rules of the small app, granted, and one more to fill its first topic; its topics exist."""
    rules = [*rules_of(small.graph)]
    rules = [
        replace(rule, operations=(*rule.operations, "Write"))
        if (rule.resource, rule.name) == ("topic", "small-readings")
        else rule
        for rule in rules
    ]
    secured.rules.grant(rules)
    with Admin(secured.connection) as admin, Registry(secured.connection) as registry:
        admin.ensure(small.graph.topics.values())
        for topic in small.graph.topics.values():
            registry.register(topic)
    return rules


def _produce(connection: Connection) -> None:
    with Producer(connection) as producer:
        producer.send_bytes("small-copies", b"x")


def _consume(connection: Connection) -> None:
    list(read(connection, "small-readings"))


def _mirror(connection: Connection) -> None:
    with Admin(connection) as admin:
        admin.mirror_group("small.copy", {("small-readings", 0): 0})


def _transact(connection: Connection) -> None:
    TransactionalProducer(connection, "small.copy.0").close()


def _create(connection: Connection) -> None:
    with Admin(connection) as admin:
        admin.ensure_letters("small-new")


def _settle(connection: Connection) -> None:
    discard(connection, "small-readings")


@pytest.mark.parametrize(
    ("resource", "name", "operation", "act"),
    [
        ("topic", "small-copies", "Write", _produce),
        ("topic", "small-readings", "Describe", _consume),
        ("group", "small.copy", "Read", _mirror),
        ("transactional-id", "small.copy.", "Write", _transact),
        ("transactional-id", "gearshift.dlq.small-readings", "Write", _settle),
    ],
    ids=["producer", "consumer", "group", "delivery's transactions", "dead-letter tool"],
)
def test_a_missing_rule_is_named(
    secured: Secured,
    every_rule: list[Rule],
    resource: str,
    name: str,
    operation: str,
    act: Callable[[Connection], None],
) -> None:
    act(secured.connection)
    with secured.rules.without(every_rule, resource, name), pytest.raises(GearshiftError) as raised:
        act(secured.connection)
    line = f"--add --allow-principal {PRINCIPAL} --operation {operation} --{resource} {name}"
    assert line in str(raised.value)


def test_a_topic_that_may_not_be_created_is_named(secured: Secured) -> None:
    with pytest.raises(NotAuthorizedError, match="Describe --topic small-new"):
        _create(secured.connection)
    secured.rules.grant([Rule("topic", "small-new", ("Describe",))])
    with pytest.raises(NotAuthorizedError, match="Create --topic small-new"):
        _create(secured.connection)


@pytest.mark.parametrize("resource", ["topic", "group"])
def test_a_delivery_names_the_rule_that_it_lacks_and_goes_on_when_it_has_it(
    secured: Secured, small: gs.App, every_rule: list[Rule], resource: str
) -> None:
    delivery = small.graph.deliveries["copy"]
    name = {"topic": "small-readings", "group": delivery.group_id}[resource]
    with secured.rules.without(every_rule, resource, name):
        consumer = ThreadConsumer(delivery, "small", secured.connection, secured.settings, "small.0")
        said = str(eventually(lambda: consumer.ended or consumer.status.get("error"), within=60))
    assert f"--{resource} {name}" in said
    consumer.stop()
    consumer.await_end(30)
    secured.rules.grant(every_rule)
    sent = Reading("m1", 1.0)
    with Producer(secured.connection) as producer:
        producer.send(small.graph.topics["small-readings"], sent)
    with Admin(secured.connection) as admin:
        before = sum(admin.end_offsets(["small-copies"]).values())
        consumer = ThreadConsumer(delivery, "small", secured.connection, secured.settings, "small.0")
        eventually(lambda: sum(admin.end_offsets(["small-copies"]).values()) > before, within=60)
    consumer.stop()
    consumer.await_end(30)


def wrong(connection: Connection, **properties: str) -> Connection:
    """The connection with other client properties."""
    return replace(
        connection, kafka={**connection.kafka, **{k.replace("_", "."): v for k, v in properties.items()}}
    )


def test_a_wrong_password_ends_every_command_within_ten_seconds(secured: Secured, tmp_path: Path) -> None:
    stranger = wrong(secured.connection, sasl_password="wrong")
    (tmp_path / "app.py").write_text(
        f"import sys\nsys.path.insert(0, {str(STORY)!r})\nfrom smart_meter import app\n", encoding="utf-8"
    )
    for number, words in enumerate(
        (
            ["topic", "list"],
            ["group", "list"],
            ["dlq", "list"],
            ["run", "../app.py"],
            ["run", "../app.py", "--deliveries-only"],
        )
    ):
        said, took = refusal(tmp_path / str(number), stranger, *words)
        assert "authentication to the broker at" in said
        assert "failed for user gearshift" in said
        assert took < SOON, f"{words}: {took:.1f} s"


def test_a_wrong_authority_ends_a_command_within_ten_seconds(secured: Secured, tmp_path: Path) -> None:
    other = certificate(tmp_path)
    said, took = refusal(
        tmp_path / "home", wrong(secured.connection, ssl_ca_location=str(other)), "topic", "list"
    )
    assert f"its certificate is not trusted by {other}" in said
    assert "ssl.ca.location" in said
    assert took < SOON


def test_a_wrong_password_ends_a_delivery_and_a_producer_for_good(secured: Secured, small: gs.App) -> None:
    stranger = wrong(secured.connection, sasl_password="wrong")
    delivery = small.graph.deliveries["copy"]
    consumer = ThreadConsumer(delivery, "small", stranger, secured.settings, "small.0")
    assert "failed for user gearshift" in str(eventually(lambda: consumer.ended, within=SOON))
    assert consumer.is_final
    with pytest.raises(LoginError), Producer(stranger, deliver_within=timedelta(minutes=2)) as producer:
        producer.send_bytes("small-copies", b"x")
