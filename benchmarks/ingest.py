"""What ingest by HTTP and by files costs beside a plain producer: `python benchmarks/ingest.py [RECORDS]`.

Everything runs on one machine, client included. Records are counted when they are on the brokers.
"""

from __future__ import annotations

import http.client
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import gearshift as gs
from gearshift import stack
from gearshift.connection import Connection
from gearshift.settings import load
from gearshift.sources import Files, Http
from gearshift.topics import Admin

CLIENTS = 8


@dataclass
class Reading:
    meter_id: str
    load_kw: float
    read_at: datetime


def main(count: int) -> None:
    """Print one JSON object: records a second by each way."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with stack.up(load({"home": home / "stack"}, environ={})) as running:
            app = gs.App("ingest")
            topic = app.topic("readings", value=Reading, key="meter_id", partitions=3)
            with Admin(running.connection) as admin:
                admin.ensure([topic])
            found = {"records": count, "plain_producer": _plain(running.connection, topic, count)}
            found["files_csv"] = _files(app, running.connection, topic, home / "in", count)
            server = Http(app.http(topics=[topic], port=0), running.connection)
            server.open()
            try:
                for size in (1, 100, 1000):
                    found[f"http_{size}_a_request"] = _post(server.port, topic, min(count, size * 2000), size)
            finally:
                server.close()
    plain = found["plain_producer"]
    found["ratio"] = {
        name: round(rate / plain, 3) for name, rate in found.items() if name.startswith(("f", "h"))
    }
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


def _plain(connection: Connection, topic: gs.Topic, count: int) -> float:
    now = datetime.now(UTC)
    with gs.Producer(connection) as producer:
        producer.send(topic, Reading("m", 1.0, now))
        producer.flush()
        began = time.perf_counter()
        for number in range(count):
            producer.send(topic, Reading(f"meter-{number % 500}", 1.5, now))
        producer.flush()
    return round(count / (time.perf_counter() - began))


def _files(app: gs.App, connection: Connection, topic: gs.Topic, folder: Path, count: int) -> float:
    folder.mkdir()
    with (folder / ".readings.csv").open("w") as out:
        out.write("meter_id,load_kw,read_at\n")
        out.writelines(f"meter-{number % 500},1.5,2026-03-01T12:00:00Z\n" for number in range(count))
    source = Files(
        app.files("readings-in", folder=folder, to=topic, format="csv", quiet="100 milliseconds"), connection
    )
    source.open()
    (folder / "warm.csv").write_text("meter_id,load_kw,read_at\nm,1,2026-03-01T12:00:00Z\n")
    while not source.taken:
        time.sleep(0.01)
    (folder / ".readings.csv").rename(folder / "readings.csv")
    began = time.perf_counter()
    while source.taken < 2:
        time.sleep(0.01)
    took = time.perf_counter() - began
    source.close()
    return round(count / took)


def _post(port: int, topic: gs.Topic, count: int, size: int) -> float:
    body = json.dumps(
        [
            {"meter_id": f"meter-{each}", "load_kw": 1.5, "read_at": "2026-03-01T12:00:00Z"}
            for each in range(size)
        ]
    )

    def send(requests: int) -> None:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for _ in range(requests):
            client.request("POST", f"/topics/{topic.name}", body, {"Content-Type": "application/json"})
            answer = client.getresponse()
            answer.read()
            assert answer.status == 200
        client.close()

    send(1)
    each = max(1, count // size // CLIENTS)
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(send, [each] * CLIENTS))
    return round(each * CLIENTS * size / (time.perf_counter() - began))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
