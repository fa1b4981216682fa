"""Tables joined to a stream: the query follows their changes, between two batches, and says which versions it read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift import tables
from gearshift.definitions import Table, Topic
from gearshift.pipelines.ledger.listing import versions_in_use
from gearshift.pipelines.supervisor import Supervisor
from gearshift.runner.maintenance import maintain
from gearshift.runner.runner import Runner
from gearshift.settings import Settings
from gearshift.topics import Producer
from tests.arrow_frames import HERE, ArrowFrame
from tests.flow import Event, Flow, values
from tests.support import eventually

PRICES = {"key": "string", "price": "long"}
PLAIN = Table(name="prices", defined_at=HERE)


@dataclass
class Price:
    key: str
    price: int


@dataclass
class Priced:
    key: str
    n: int
    price: int


def declare(unique: str, gear: str) -> tuple[gs.App, Topic, Topic, Topic]:
    """Events that get the prices which another pipeline of the app keeps in a table."""
    app = gs.App(unique)
    changes = app.topic(f"{unique}-prices", value=Price, key="key")
    events = app.topic(f"{unique}-events", value=Event, key="key", partitions=2)
    out = app.topic(f"{unique}-priced", value=Priced, key="key", partitions=2)
    prices = app.table("prices", key="key", sequence_by="price")

    @app.pipeline(source=changes, to=prices, gear="near-real-time", freshness="2 seconds")
    def keep_prices(changes: DataFrame) -> DataFrame:
        return changes

    @app.pipeline(
        source={"events": events, "prices": prices},
        to=out,
        gear=gear,
        freshness="1 second",
        refresh="10 seconds",
    )
    def price(events: DataFrame, prices: DataFrame) -> DataFrame:
        return events.join(F.broadcast(prices), "key").select("key", "n", "price")

    return app, changes, events, out


def set_price(producer: Producer, changes: Topic, price: int) -> None:
    for number in range(50):
        producer.send(changes, Price(f"k{number}", price))
    producer.flush()


def append(uri: str, number: int, rows: list[tuple[str, int]]) -> None:
    """Commit rows as another writer would."""
    tables.append(PLAIN, uri, ArrowFrame(PRICES, rows), writer="other", batch_id=number)


def versions_read(supervisor: Supervisor) -> list[int]:
    return [run.tables["prices"] for run in supervisor.ledger.runs]


@pytest.mark.parametrize("gear", ["near-real-time", "real-time"])
def test_a_stream_takes_up_what_changes_in_a_table_it_joins_and_loses_and_repeats_nothing(
    unique: str, settings: Settings, gear: str
) -> None:
    settings = settings.model_copy(update={"checkpoint_interval": timedelta(minutes=4)})
    app, changes, events, out = declare(unique, gear)
    uri = tables.table_uri(settings.warehouse_uri, "prices")

    with Runner(app, settings) as runner, Producer(runner.context.connection) as producer:
        supervisor, connection = runner.supervisors["price"], runner.context.connection
        assert supervisor.condition.state == "waiting for table prices"  # and the rest of the app runs
        set_price(producer, changes, 1)
        eventually(lambda: supervisor.condition.state == "running")
        eventually(lambda: len(tables.rows(uri)) == 50)
        eventually(lambda: not tables.changed_since(uri, versions_read(supervisor)[-1]))
        with Flow(connection, events, rate=200) as flow:

            def highest() -> int:
                return max((each.price for each in values(connection, out)), default=0)

            eventually(lambda: highest() == 1, every=0.5)
            set_price(producer, changes, 2)
            eventually(lambda: highest() == 2, within=60, every=0.5)
            # Rows that stay as they are, in other files, and a commit without rows: nothing to take up.
            eventually(lambda: not tables.changed_since(uri, versions_read(supervisor)[-1]))
            began = len(supervisor.ledger.runs)
            append(uri, 1, [("odd", 7)])
            eventually(lambda: len(supervisor.ledger.runs) == began + 1, within=60)
            assert tables.compact(uri).taken == 2
            append(uri, 2, [])
            assert tables.newest_version(uri) > versions_read(supervisor)[-1]
            unchanged = datetime.now(UTC) + timedelta(seconds=25)
            eventually(lambda: datetime.now(UTC) > unchanged, every=1)
            assert len(supervisor.ledger.runs) == began + 1
            set_price(producer, changes, 3)
            eventually(lambda: highest() == 3, within=60, every=0.5)

        def missing() -> list[int]:
            return sorted(set(range(flow.sent)) - {each.n for each in values(connection, out)})

        eventually(lambda: not missing(), every=0.5, within=60)
        ledger = supervisor.ledger
        assert ledger.gap == 0
    seen = Counter(each.n for each in values(connection, out))
    assert set(seen) == set(range(flow.sent))
    assert seen.total() == flow.sent
    assert ledger.replayed == 0
    assert {run.why for run in ledger.runs[1:]} == {"table prices changed"}
    assert sorted(set(versions_read(supervisor))) == versions_read(supervisor)
    prices_seen: dict[str, int] = {}
    for each in values(connection, out):  # in order within each key, a price never goes back
        assert each.price >= prices_seen.get(each.key, 0)
        prices_seen[each.key] = each.price


def test_where_a_real_time_batch_cannot_be_ended_early_a_change_waits_for_its_end(
    unique: str, settings: Settings
) -> None:
    """As on a cluster."""
    app, changes, events, out = declare(unique, "real-time")
    append(tables.table_uri(settings.warehouse_uri, "prices"), 0, [(f"k{n}", 1) for n in range(50)])
    with Runner(app, settings) as runner, Producer(runner.context.connection) as producer:
        object.__setattr__(runner.context, "endings", None)
        supervisor, connection = runner.supervisors["price"], runner.context.connection
        with Flow(connection, events, rate=100) as flow:
            eventually(lambda: values(connection, out), every=0.5)
            set_price(producer, changes, 2)
            eventually(lambda: any(each.price == 2 for each in values(connection, out)), within=90, every=0.5)
        eventually(
            lambda: {each.n for each in values(connection, out)} == set(range(flow.sent)),
            within=60,
            every=0.5,
        )
        ledger = supervisor.ledger
        eventually(lambda: all(run.replayed is not None for run in ledger.runs[:-1]))
    assert ledger.runs[1].why == "table prices changed"
    assert ledger.gap == 0
    assert ledger.replayed == len(values(connection, out)) - flow.sent < 100  # of a second, at the most


def test_a_vacuum_keeps_what_a_running_query_reads(unique: str, settings: Settings) -> None:
    app, _, events, out = declare(unique, "near-real-time")
    uri = tables.table_uri(settings.warehouse_uri, "prices")
    for number in range(2):
        append(uri, number, [("xy"[number], 7)])

    def found(key: str) -> list[Any]:
        return [each for each in values(runner.context.connection, out) if each.key == key]

    with Runner(app, settings) as runner, Producer(runner.context.connection) as producer:
        supervisor = runner.supervisors["price"]
        producer.send(events, Event(key="x", n=1))
        producer.flush()
        eventually(lambda: found("x"), every=0.3)
        before = {file.path for file in tables.read_paths(uri).files}
        assert tables.compact(uri, now=datetime.now(UTC) - timedelta(days=8)).taken == 2
        maintain(uri, keep=versions_in_use(settings.checkpoints_uri)["prices"])
        assert all((settings.home / "warehouse" / "prices" / path).exists() for path in before)
        producer.send(events, Event(key="x", n=2))
        producer.flush()
        eventually(lambda: len(found("x")) == 2, every=0.3)
        assert supervisor.condition.restarts == 0
        # Who vacuums without asking takes the files away: the query fails once, and goes on with the newest.
        maintain(uri)
        assert not any((settings.home / "warehouse" / "prices" / path).exists() for path in before)
        producer.send(events, Event(key="x", n=3))
        producer.flush()
        eventually(lambda: {each.n for each in found("x")} == {1, 2, 3}, every=0.3)
        assert supervisor.ledger.gap == 0
