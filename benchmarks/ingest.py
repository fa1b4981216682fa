"""Ingest by HTTP and by files beside Kafka's client alone, in one run on one machine.

Requests of one record are compared with a loop that commits a transaction for each record, as a server without group
commit would, and with requests that are refused before Kafka is asked, which is what the server itself can do.
Requests of many records and files are compared with a plain producer, without transactions. Clients keep their
connections, and are a process of their own. Rounds go by turns; results go to benchmarks/results/ and to a table.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

import gearshift as gs
from gearshift import stack
from gearshift.connection import Connection
from gearshift.settings import load
from gearshift.sources import Files, Http
from gearshift.topics import Admin, TransactionalProducer

HERE = Path(__file__).parent
CONNECTIONS = (1, 8, 32)
SIZES = (100, 1000)
AT_ONCE = 8
"""The connections of requests with many records."""


@dataclass
class Reading:
    meter_id: str
    load_kw: float
    read_at: datetime


ROW = {"meter_id": "meter-7", "load_kw": 1.5, "read_at": "2026-03-01T12:00:00Z"}


def send(port: int, body: str, connections: int, seconds: float, expected: int) -> tuple[float, list[float]]:
    """In a process of its own: requests a second over so many connections, and how long each took."""

    def over_one(_: int) -> list[float]:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        took: list[float] = []
        until = time.perf_counter() + seconds
        while (began := time.perf_counter()) < until:
            client.request("POST", "/topics/readings", body, {"Content-Type": "application/json"})
            answer = client.getresponse()
            answer.read()
            assert answer.status == expected, answer.status
            took.append(time.perf_counter() - began)
        client.close()
        return took

    began = time.perf_counter()
    with ThreadPoolExecutor(connections) as pool:
        took = [each for found in pool.map(over_one, range(connections)) for each in found]
    return len(took) / (time.perf_counter() - began), took


class Bench:
    """A stack, a topic, and every way to it."""

    def __init__(self, connection: Connection, folder: Path, chosen: argparse.Namespace) -> None:
        self.latencies: dict[str, list[float]] = {}
        self._connection = connection
        self._folder = folder
        self._chosen = chosen
        self._app = gs.App("ingest")
        self._topic = self._app.topic("readings", value=Reading, key="meter_id", partitions=3)
        with Admin(connection) as admin:
            admin.ensure([self._topic])
        self._server = Http(self._app.http(topics=[self._topic], port=0), connection)
        self._server.open()
        self._clients = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))

    def close(self) -> None:
        """End server and clients."""
        self._clients.shutdown()
        self._server.close()

    def ways(self) -> dict[str, Callable[[], float]]:
        """Each way by its name: records a second."""
        return {
            "one transaction a record": self.transactions,
            "refused requests, 8 connections": lambda: self.post("refused", '{"meter_id": 1}', 8, 1, 400),
            **{
                f"requests of 1 record, {connections} connections": (
                    lambda connections=connections: self.post(
                        f"{connections} connections", json.dumps(ROW), connections, 1, 200
                    )
                )
                for connections in CONNECTIONS
            },
            "plain producer": self.produce,
            **{
                f"requests of {size:,} records, {AT_ONCE} connections": (
                    lambda size=size: self.post(
                        f"{size} records", json.dumps([ROW] * size), AT_ONCE, size, 200
                    )
                )
                for size in SIZES
            },
            "a file of CSV": self.files,
        }

    def transactions(self) -> float:
        """A transaction for each record, one after the other."""
        producer = TransactionalProducer(self._connection, "bench")
        value = b"x" * 40
        count, until = 0, time.perf_counter() + self._chosen.seconds
        try:
            while time.perf_counter() < until:
                producer.begin()
                producer.send_bytes("readings", value, key=b"meter-7")
                producer.commit()
                count += 1
        finally:
            producer.close()
        return count / self._chosen.seconds

    def post(self, name: str, body: str, connections: int, size: int, expected: int) -> float:
        """Records a second by HTTP."""
        work = self._clients.submit(
            send, self._server.port, body, connections, self._chosen.seconds, expected
        )
        rate, took = work.result()
        self.latencies.setdefault(name, []).append(round(median(took) * 1000, 2))
        return rate * size

    def produce(self) -> float:
        """A plain producer, all records acknowledged at the end."""
        now, count = datetime.now(UTC), self._chosen.records
        with gs.Producer(self._connection) as producer:
            began = time.perf_counter()
            for number in range(count):
                producer.send(self._topic, Reading(f"meter-{number % 500}", 1.5, now))
            producer.flush()
        return count / (time.perf_counter() - began)

    def files(self) -> float:
        """One file, from its arrival to its last record on the brokers; finding it is part of it."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        app = gs.App(f"ingest-{folder.name}")
        source = Files(
            app.files("in", folder=folder, to=self._topic, format="csv", quiet="100 milliseconds"),
            self._connection,
        )
        hidden = folder / ".readings.csv"
        with hidden.open("w") as out:
            out.write("meter_id,load_kw,read_at\n")
            out.writelines(
                f"meter-{number % 500},1.5,2026-03-01T12:00:00Z\n" for number in range(self._chosen.records)
            )
        source.open()
        hidden.rename(folder / "readings.csv")
        began = time.perf_counter()
        while not source.taken:
            time.sleep(0.01)
        took = time.perf_counter() - began
        source.close()
        return self._chosen.records / took


def main() -> None:
    """Measure every way by turns, show the ratios, keep the raw results."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=4, help="of each way in a round")
    options.add_argument("--records", type=int, default=100_000, help="of the producer and the file")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with stack.up(load({"home": home / "stack"}, environ={})) as running:
            bench = Bench(running.connection, home, chosen)
            try:
                ways = bench.ways()
                ways["requests of 1 record, 1 connections"]()  # which opens what is opened once
                bench.latencies.clear()
                rates: dict[str, list[float]] = {name: [] for name in ways}
                for _ in range(chosen.rounds):
                    for name, way in ways.items():
                        rates[name].append(round(way(), 1))
            finally:
                bench.close()
    report(chosen, rates, bench.latencies)


def report(
    chosen: argparse.Namespace, rates: dict[str, list[float]], latencies: dict[str, list[float]]
) -> None:
    """A table for people, a file for later."""
    single = median(rates["one transaction a record"])
    plain = median(rates["plain producer"])
    ratios: dict[str, dict[str, Any]] = {}
    shown = Table("way", "records/s", "beside", "ratio", box=None, pad_edge=False)
    for name, found in rates.items():
        is_single = "of 1 record" in name
        beside = "one transaction a record" if is_single else "plain producer"
        row = [name, f"{median(found):,.0f}"]
        if is_single or name.startswith(("requests of", "a file")):
            ratio = round(median(found) / (single if is_single else plain), 3)
            ratios[name] = {"beside": beside, "ratio": ratio}
            row += [beside, f"{ratio:g}"]
        shown.add_row(*row)
    Console().print(shown)
    path = HERE / "results" / "ingest.json"
    path.parent.mkdir(exist_ok=True)
    kept = {
        "chosen": vars(chosen),
        "records_a_second": rates,
        "ratios": ratios,
        "median_milliseconds_a_request": latencies,
    }
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(f"raw results: {path}")


if __name__ == "__main__":
    main()
