"""Gearshift beside a hand-written PySpark script with equal settings, on the same broker, in one run.

Two queries: stateless (a filter) and stateful (a count per key). Two measures: the latency of records
that arrive at a steady rate, in real-time; and the throughput of a backlog, in batch (AvailableNow).
The two sides take turns, several rounds, and are compared round by round: on a noisy machine only the
ratios of one run mean anything. For throughput both sides stay alive, warm, and run the same records
one after the other, each from the start of its query until its batch is committed; for Gearshift that
takes in the registry, the ledger and all else a start does. The settings of both Sparks are compared
before anything is measured. Two rounds that are not measured come first: until Java has compiled what it
runs, a round takes half as long again. How well it then happens to run lasts as long as its process, a few
percent to either side: so both sides begin anew after two measured rounds. Results go to
benchmarks/results/ and to a table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import cycle, islice, product
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

import gearshift as gs
from gearshift import settings as configuration
from gearshift import stack as local
from gearshift.connection import Connection
from gearshift.schemas import Registry, encode, pack
from gearshift.stack.artifacts.artifacts import jars
from gearshift.topics import Admin, Producer, tail

HERE = Path(__file__).parent
KEYS = 100
WARM_UP_ROUNDS = 2
ROUNDS_OF_A_PROCESS = 2
PARTITIONS = 4
SIDES = ("plain", "gearshift")
# Of a Spark's settings, those that no two have alike and that say nothing of how it runs.
OWN = ("spark.app.", "spark.driver.port", "spark.driver.host", "spark.executor.id", "spark.sql.warehouse.dir")
# What makes our decoder known to Spark: it is part of what is measured.
OURS = ("spark.jars", "spark.repl.local.jars", "spark.sql.catalog.gearshift")
# And of Java's options: where the log goes, and the archive of classes, which matters before anything is measured.
_OF_THE_START = ("-Dlog4j2.", '"-XX:SharedArchiveFile=', '"-Xlog:cds')


@dataclass
class Event:
    key: str
    sent: float
    n: int


@dataclass
class Latency:
    side: str
    query: str
    p50: float
    p90: float
    p99: float
    records: int


@dataclass
class Throughput:
    side: str
    query: str
    round: int
    seconds: float
    records_per_second: float


def topics(name: str) -> tuple[gs.Topic, gs.Topic]:
    app = gs.App("benchmark")
    return (
        app.topic(f"{name}-in", value=Event, key="key", partitions=PARTITIONS),
        app.topic(f"{name}-out", value=Event, key="key", partitions=PARTITIONS),
    )


def run_side(
    side: str, query: str, gear: str, name: str, connection: Connection, folder: Path, interval: float
) -> subprocess.Popen[str]:
    """Start one side in a process of its own; it prints `ready` when its query computes, or waits for `go`."""
    command = [sys.executable, str(HERE / f"side_{side}.py"), query, gear, name, str(folder), str(interval)]
    environment = {**os.environ, "BENCH_CONNECTION": json.dumps(asdict(connection))}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def wait_for(process: subprocess.Popen[str], word: str) -> str:
    """What a side says after a word."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(word):
            return line.removeprefix(word).strip()
    raise SystemExit(f"{process.args} ended before it said {word!r}")


def go(process: subprocess.Popen[str]) -> float:
    """Let a side run one batch over what is new; the seconds it took."""
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    return float(wait_for(process, "done"))


def end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def measure_latency(
    side: str,
    query: str,
    connection: Connection,
    *,
    rate: float,
    seconds: float,
    warm_up: float,
    interval: float,
) -> Latency:
    """Records at a steady rate through a real-time query: milliseconds from due time to arrival at a consumer."""
    name = f"l{int(time.time() * 1000)}"
    source, target = topics(name)
    Admin(connection).ensure([source, target])
    latencies: list[float] = []
    with tempfile.TemporaryDirectory() as folder, Registry(connection) as registry:
        schema_id = registry.register(source)
        registry.register(target)
        process = run_side(side, query, "real-time", name, connection, Path(folder), interval)
        try:
            wait_for(process, "ready")
            began = time.time()
            done = threading.Event()

            def listen() -> None:
                from gearshift.schemas import Decoder

                decode = Decoder(target, registry)
                with tail(connection, [target.name], from_beginning=True) as inbox:
                    while not done.is_set():
                        for record in inbox.poll(timedelta(milliseconds=5)):
                            now = time.time()
                            sent = decode(record.value).sent
                            if sent > began + warm_up:
                                latencies.append((now - sent) * 1000)

            listener = threading.Thread(target=listen)
            listener.start()
            with Producer(connection, registry, linger=timedelta(0)) as producer:
                number, due = 0, time.time()
                while due < began + warm_up + seconds:
                    event = Event(f"k{number % KEYS}", due, number)
                    producer.send_bytes(source.name, pack(schema_id, encode(event)), key=event.key.encode())
                    number, due = number + 1, due + 1 / rate
                    time.sleep(max(0.0, due - time.time()))
            time.sleep(3)  # the last records are on their way; nothing tells when the last one came
            done.set()
            listener.join()
        finally:
            end(process)
    latencies.sort()
    return Latency(
        side,
        query,
        *(round(latencies[int(len(latencies) * share)], 1) for share in (0.5, 0.9, 0.99)),
        len(latencies),
    )


def load(connection: Connection, source: gs.Topic, records: int) -> None:
    """Add a backlog of records to a topic."""
    with Registry(connection) as registry, Producer(connection, registry) as producer:
        schema_id = registry.register(source)
        events = [Event(f"k{number % KEYS}", 0.0, number) for number in range(10 * KEYS)]
        encoded = [(event.key.encode(), pack(schema_id, encode(event))) for event in events]
        for key, value in islice(cycle(encoded), records):
            producer.send_bytes(source.name, value, key=key)
    os.sync()  # or the side that comes first would share the disk with what was just written


def measure_throughput(
    query: str, connection: Connection, *, records: int, rounds: range, interval: float
) -> Iterator[Throughput]:
    """The same backlog through one batch of each side, round after round, once both are warm."""
    name = f"b{int(time.time() * 1000)}"
    source, target = topics(name)
    Admin(connection).ensure([source, target])
    with Registry(connection) as registry:
        registry.register(source)
        registry.register(target)
    with ExitStack() as stack:
        sides: dict[str, subprocess.Popen[str]] = {}
        settings: dict[str, dict[str, str]] = {}
        for side in SIDES:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            sides[side] = run_side(side, query, "batch", name, connection, folder, interval)
            stack.callback(end, sides[side])
            settings[side] = json.loads(wait_for(sides[side], "settings"))
            wait_for(sides[side], "ready")
        require_equal(settings)
        for round_ in range(rounds.start - WARM_UP_ROUNDS, rounds.stop):
            load(connection, source, records)
            for side in _order(round_):
                took = go(sides[side])
                if round_ in rounds:
                    yield Throughput(side, query, round_, round(took, 3), round(records / took, 1))


def require_equal(settings: dict[str, dict[str, str]]) -> None:
    """Refuse to compare two Sparks that are set differently."""
    plain, ours = (
        {
            name: _without_the_start(value)
            for name, value in settings[side].items()
            if not name.startswith((*OWN, *OURS))
        }
        for side in SIDES
    )
    different = {
        name: (plain.get(name), ours.get(name))
        for name in plain.keys() | ours.keys()
        if plain.get(name) != ours.get(name)
    }
    if different:
        raise SystemExit(f"the two sides have different settings: {different}")


def _without_the_start(value: str) -> str:
    """What a Spark runs by once it is there."""
    return " ".join(word for word in value.split() if not word.startswith(_OF_THE_START))


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=6)
    options.add_argument("--rate", type=float, default=200)
    options.add_argument(
        "--seconds", type=float, default=240, help="measured after the warm-up, each side and round"
    )
    options.add_argument("--warm-up", type=float, default=20)
    options.add_argument(
        "--records",
        type=int,
        default=10_000_000,
        help="the backlog of a round; with 1,000 a round shows what a start costs",
    )
    options.add_argument(
        "--interval", type=float, default=240, help="the checkpoint interval of both sides, in seconds"
    )
    options.add_argument("--only", choices=("latency", "throughput"))
    chosen = options.parse_args()
    found: dict[str, list[Any]] = {"latency": [], "throughput": []}
    with ExitStack() as exit_:
        home = Path(exit_.enter_context(tempfile.TemporaryDirectory()))
        settings = configuration.load({"home": home}, environ={})
        jars("spark", cache=settings.cache)
        connection = exit_.enter_context(local.up(settings)).connection
        if chosen.only != "latency":
            every = range(1, chosen.rounds + 1)
            for query, first in product(("stateless", "stateful"), every[::ROUNDS_OF_A_PROCESS]):
                for one in measure_throughput(
                    query,
                    connection,
                    records=chosen.records,
                    rounds=range(first, min(first + ROUNDS_OF_A_PROCESS, every.stop)),
                    interval=chosen.interval,
                ):
                    print(one, flush=True)
                    found["throughput"].append(asdict(one))
        if chosen.only != "throughput":
            for round_ in range(chosen.rounds):
                for query in ("stateless", "stateful"):
                    for side in _order(round_):
                        each = measure_latency(
                            side,
                            query,
                            connection,
                            rate=chosen.rate,
                            seconds=chosen.seconds,
                            warm_up=chosen.warm_up,
                            interval=chosen.interval,
                        )
                        print(each, flush=True)
                        found["latency"].append(asdict(each))
    report(found, vars(chosen))


def _order(round_: int) -> tuple[str, ...]:
    return SIDES if round_ % 2 == 0 else SIDES[::-1]


def report(found: dict[str, list[Any]], chosen: dict[str, Any]) -> None:
    """The medians of the rounds, and the median of the ratios of each round, as a table and as JSON."""
    table = Table(
        "measure",
        "query",
        "plain PySpark",
        "Gearshift",
        "ratio",
        "ratio of each round",
        title="Gearshift beside plain PySpark",
    )
    ratios: dict[str, dict[str, Any]] = {}
    for measure, field in (("throughput", "records_per_second"), ("latency", "p50"), ("latency", "p99")):
        for query in ("stateless", "stateful"):
            plain, ours = (
                [entry[field] for entry in found[measure] if (entry["side"], entry["query"]) == (side, query)]
                for side in SIDES
            )
            if not plain:
                continue
            each = [round(b / a, 3) for a, b in zip(plain, ours, strict=True)]
            ratio = ratios[f"{field} {query}"] = {
                "ratio": round(median(each), 3),
                "ratio_of_medians": round(median(ours) / median(plain), 3),
                "rounds": each,
            }
            table.add_row(
                field,
                query,
                f"{median(plain):,.1f}",
                f"{median(ours):,.1f}",
                f"{ratio['ratio']:.3f}",
                " ".join(f"{one:.2f}" for one in each),
            )
    Console().print(table)
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    parts = chosen.get("only") or "all"
    path = results / f"overhead-{parts}.json"
    path.write_text(
        json.dumps({"chosen": chosen, "ratios": ratios, "raw": found}, indent=1, default=str) + "\n"
    )
    print(f"raw results: {path}")


if __name__ == "__main__":
    main()
