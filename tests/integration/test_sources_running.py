"""A runner with sources of every kind: what they put on a topic, pipelines in every gear read once it is committed."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

from pyspark.sql import DataFrame

import gearshift as gs
from gearshift.freshness import Gear
from gearshift.runner.runner import Runner
from gearshift.schemas import Registry
from gearshift.settings import Settings
from gearshift.sources.record_encoder import RecordEncoder
from gearshift.topics import TransactionalProducer
from tests.flow import values
from tests.support import eventually


@dataclass
class Order:
    origin: str
    number: int


def test_pipelines_read_what_sources_committed_and_nothing_that_was_taken_back(
    unique: str, settings: Settings, tmp_path: Path
) -> None:
    app = gs.App(unique)
    orders = app.topic(f"{unique}-orders", value=Order, key="number", partitions=2)
    copies = app.topic(f"{unique}-copies", value=Order, key="number")
    app.files("orders-in", folder=tmp_path / "in", to=orders, format="csv", quiet="100 milliseconds")
    app.http(topics=[orders], port=0)

    failures = iter([ValueError("the generator fails once")])

    @app.source(to=orders, rate=500, seed=7, out_of_order=0.1, duplicates=0.1, max_delay="1 second")
    def simulated(_: Random) -> Iterator[Order]:
        for number in range(100):
            if number == 50:
                for failure in failures:
                    raise failure
            yield Order("simulated", number)

    @app.pipeline(source=orders, to=copies, freshness="1 second")
    def copy(orders: DataFrame) -> DataFrame:
        return orders

    def put(runner: Runner, round_: int) -> None:
        """Ten orders by each way, and ten that are sent and taken back."""
        connection = runner.context.connection
        with Registry(connection) as registry:
            encoded = RecordEncoder(orders, registry)
        with TransactionalProducer(connection, f"{unique}-other") as producer:
            producer.begin()
            for number in range(10):
                key, value = encoded.record(Order("taken back", number))
                producer.send_bytes(orders.name, value, key=key)
            producer.abort()
        rows = "".join(f"file,{10 * round_ + each}\n" for each in range(10))
        (tmp_path / "in" / f"{round_}.csv").write_text(f"origin,number\n{rows}file,x\n")
        port = urlsplit(
            next(each["at"] for each in runner.status()["sources"] if each["kind"] == "http")
        ).port
        client = http.client.HTTPConnection("127.0.0.1", port or 0, timeout=60)
        body = [{"origin": "http", "number": 10 * round_ + each} for each in range(10)]
        client.request(
            "POST", f"/topics/{orders.name}", json.dumps(body), {"Content-Type": "application/json"}
        )
        answer = client.getresponse()
        assert (answer.status, json.loads(answer.read())) == (200, {"written": 10})
        client.close()
        # A batch reads what is there when it begins, and no more.
        eventually((tmp_path / "in" / "taken" / f"{round_}.csv").exists)

    def seen(runner: Runner) -> set[tuple[str, int]]:
        return {(order.origin, order.number) for order in values(runner.context.connection, copies)}

    def wanted(rounds: int) -> set[tuple[str, int]]:
        return {("simulated", number) for number in range(100)} | {
            (origin, number) for origin in ("file", "http") for number in range(10 * rounds)
        }

    with Runner(app, settings) as runner:
        for round_, gear in enumerate((Gear.REAL_TIME, Gear.NEAR_REAL_TIME, Gear.BATCH)):
            if round_:
                put(runner, round_)
                runner.shift("copy", gear)
            else:
                put(runner, round_)
            eventually(lambda round_=round_: seen(runner) == wanted(round_ + 1), every=0.3)
        ledger = runner.supervisors["copy"].ledger
        assert ledger.gap == 0
        # Records, not offsets: the markers of transactions and what they took back have offsets too.
        read_twice = sum(run.replayed or 0 for run in ledger.runs)
        assert sum(run.records for run in ledger.runs) == len(values(runner.context.connection, orders))
        assert sum(run.written for run in ledger.runs) + read_twice >= len(wanted(3))
        assert runner.status()["pipelines"][0]["dead_letters"] == 0
        status = {each["kind"]: each for each in runner.status()["sources"]}
        assert (status["files"]["files"], status["files"]["sent"], status["files"]["failed"]) == (3, 30, 3)
        assert (status["http"]["requests"], status["http"]["sent"]) == (3, 30)
        assert status["simulator"]["sent"] >= 100
        assert [status[kind]["restarts"] for kind in ("simulator", "files", "http")] == [1, 0, 0]
        assert not any(each["error"] for each in status.values())
    assert not any(source.running for source in runner.sources.values())
