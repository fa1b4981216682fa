"""Deliveries beside a bare confluent-kafka loop and Quix Streams, on the same broker, in one run.

Four measures. Lanes: 10,000 records over which a handler sleeps up to 5 ms, in one partition, with 20 keys and
16 lanes. Throughput: a backlog of 100-byte records through a handler that does nothing. Latency: records at a
steady rate, from the moment each was due to its handler. Hot key: the same for 20 keys at 16 lanes, alone and
beside one more key that brings nine tenths of the records, more than one lane can work off. Each contender is
a process of its own and counts from its first record to its last, so that neither its imports nor its way into
the group count; they take turns, several rounds, and are compared round by round: on a noisy machine only
the ratios of one run mean anything. Results go to benchmarks/results/ and to a table.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

from contenders import LONGEST, NO_OP, SHORT, SLEEPS, TIMES, Event, sleeps
from rich.console import Console
from rich.table import Table

import gearshift as gs
from gearshift import settings as configuration
from gearshift import stack as local
from gearshift.connection import Connection
from gearshift.schemas import encode, pack
from gearshift.topics import Admin, Producer

HERE = Path(__file__).parent
LANES = ("gearshift-async-16", "gearshift-sync-16")
THROUGHPUT = (
    "bare-poll",
    "gearshift-async",
    "quix",
    "bare-poll-tuned",
    "bare-consume",
    "gearshift-sync",
    "gearshift-async-16",
)
LATENCY = ("bare-poll", "gearshift-async", "gearshift-sync", "quix")
LANE_RECORDS, LANE_KEYS, LANE_COUNT = 10_000, 20, 16
HOT_SHARE = 10  # of so many records, all but one are of the hot key
WARM_UP = 2.0  # seconds of a steady load that do not count
PATIENCE = 600.0  # seconds after which a contender hangs


class Bench:
    """A cluster to measure on, and the Python that has Quix Streams."""

    def __init__(self, connection: Connection, quix_python: str) -> None:
        self.connection = connection
        self._quix_python = quix_python

    def topic(self, name: str, partitions: int = 1) -> gs.Topic:
        """A new topic."""
        app = gs.App("benchmark")
        source = app.topic(f"{name}-{int(time.time() * 1000)}", value=Event, key="key", partitions=partitions)
        with Admin(self.connection) as admin:
            admin.ensure([source])
        return source

    def fill(self, source: gs.Topic, records: int, keys: int) -> None:
        """Add a backlog of records to a topic."""
        with Producer(self.connection) as producer:
            for event in events(records, keys):
                producer.send(source, event)

    @contextmanager
    def reading(
        self, contender: str, load: str, source: gs.Topic, records: int
    ) -> Iterator[Callable[[str], str]]:
        """Start a contender; what it says after a word."""
        python = self._quix_python if contender == "quix" else sys.executable
        command = [python, str(HERE / "contenders.py"), contender, load, source.name, str(records)]
        command.append(f"{contender}-{time.time()}")
        environment = {**os.environ, "BENCH_CONNECTION": json.dumps(asdict(self.connection))}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        watch = threading.Timer(PATIENCE, process.kill)
        watch.start()

        def after(word: str) -> str:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith(word):
                    return line.removeprefix(word).strip()
            raise SystemExit(f"{contender} ended before it said {word!r}")

        try:
            yield after
            process.wait()
        finally:
            watch.cancel()
            process.kill()
            process.wait()

    def read(self, contender: str, load: str, source: gs.Topic, records: int) -> dict[str, Any]:
        """Let a contender read what a topic has."""
        with self.reading(contender, load, source, records) as after:
            return json.loads(after("done"))

    def listen(
        self, contender: str, load: str, schedule: Sequence[tuple[float, str]]
    ) -> list[tuple[str, float, float]]:
        """Send records when they are due, in seconds from the start; of each its key, that time and its latency."""
        source = self.topic("steady")
        payload = events(len(schedule) + 1, 1)
        with (
            Producer(self.connection, linger=timedelta(0)) as producer,
            self.reading(contender, load, source, len(schedule) + 1) as after,
        ):
            # The first record tells that the contender is there; as there is one partition, numbers are offsets.
            producer.send(source, next(payload))
            producer.flush()
            after("ready")
            began = time.time() + 0.5
            for (due, key), event in zip(schedule, payload, strict=True):
                time.sleep(max(0.0, began + due - time.time()))
                producer.send(source, event, key=key)
            handled = dict(json.loads(after("done"))["times"])
        return [
            (key, due, handled[number] - began - due) for number, (due, key) in enumerate(schedule, start=1)
        ]


def events(records: int, keys: int) -> Iterator[Event]:
    """Values that make about 100 bytes, and do not compress to nothing."""
    chance = random.Random(4)
    for number in range(records):
        yield Event(f"k{number % keys}", number, chance.randbytes(43).hex())


def share_of(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[int(len(ordered) * share)]


def measure_lanes(bench: Bench, chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for round_ in range(chosen.rounds):
        for contender in _order(LANES, round_):
            source = bench.topic("lanes")
            bench.fill(source, LANE_RECORDS, LANE_KEYS)
            found = bench.read(contender, SLEEPS, source, LANE_RECORDS)
            yield {"contender": contender, "round": round_, "seconds": round(found["seconds"], 3)}


def measure_throughput(bench: Bench, chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    source = bench.topic("backlog", partitions=4)
    bench.fill(source, chosen.records, keys=100)
    for round_ in range(chosen.rounds):
        for contender in _order(THROUGHPUT, round_):
            found = bench.read(contender, NO_OP, source, chosen.records)
            yield {
                "contender": contender,
                "round": round_,
                "seconds": round(found["seconds"], 3),
                "records_per_second": round(chosen.records / found["seconds"]),
                "cpu_us_per_record": round(found["cpu"] / chosen.records * 1e6, 2),
            }


def measure_latency(bench: Bench, chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    count = round((WARM_UP + chosen.seconds) * chosen.rate)
    schedule = [(number / chosen.rate, f"k{number % LANE_KEYS}") for number in range(count)]
    for round_ in range(chosen.rounds):
        for contender in _order(LATENCY, round_):
            latencies = [
                took * 1000 for _, due, took in bench.listen(contender, TIMES, schedule) if due >= WARM_UP
            ]
            yield {
                "contender": contender,
                "round": round_,
                "p50_ms": round(share_of(latencies, 0.5), 2),
                "p99_ms": round(share_of(latencies, 0.99), 2),
                "records": len(latencies),
            }


def measure_hot_key(bench: Bench, chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The others come at the same pace in both; the hot key comes on top, faster than one lane works."""
    others = [
        (number / chosen.hot_rate, f"k{number % LANE_KEYS}")
        for number in range(round((WARM_UP + chosen.hot_seconds) * chosen.hot_rate))
    ]
    step = 1 / chosen.hot_rate / HOT_SHARE
    with_hot = [
        one
        for due, key in others
        for one in [(due, key), *((due + step * extra, "hot") for extra in range(1, HOT_SHARE))]
    ]
    for round_ in range(chosen.rounds):
        for contender in LANES:
            for hot, schedule in _order(((False, others), (True, with_hot)), round_):
                latencies = [
                    took * 1000
                    for key, due, took in bench.listen(contender, SHORT, schedule)
                    if key != "hot" and due >= WARM_UP
                ]
                yield {
                    "contender": contender,
                    "round": round_,
                    "hot_key": hot,
                    "p50_ms": round(share_of(latencies, 0.5), 2),
                    "p99_ms": round(share_of(latencies, 0.99), 2),
                    "records": len(latencies),
                }


MEASURES: dict[str, Callable[[Bench, argparse.Namespace], Iterator[dict[str, Any]]]] = {
    "lanes": measure_lanes,
    "throughput": measure_throughput,
    "latency": measure_latency,
    "hot-key": measure_hot_key,
}


def _order(things: Sequence[Any], round_: int) -> Sequence[Any]:
    return things if round_ % 2 == 0 else things[::-1]


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--records", type=int, default=1_000_000, help="the backlog of the throughput")
    options.add_argument("--rate", type=float, default=200, help="records/s of the latency")
    options.add_argument("--seconds", type=float, default=20, help="of the latency, each contender and round")
    options.add_argument("--hot-rate", type=float, default=100, help="records/s of all keys but the hot one")
    options.add_argument("--hot-seconds", type=float, default=10)
    options.add_argument("--only", choices=tuple(MEASURES))
    options.add_argument("--bootstrap-servers", help="measure on this cluster instead of a local one")
    options.add_argument("--registry-url")
    options.add_argument("--quix-python", default=str(HERE.parent / ".venv-bench" / "bin" / "python"))
    chosen = options.parse_args()
    if not Path(chosen.quix_python).exists():
        raise SystemExit(f"no Quix Streams at {chosen.quix_python}; try: make bench-deliveries")
    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        flags = {
            "home": Path(home),
            "bootstrap_servers": chosen.bootstrap_servers,
            "registry_url": chosen.registry_url,
        }
        settings = configuration.load({name: flag for name, flag in flags.items() if flag}, environ={})
        with local.up(settings) as stack:
            bench = Bench(stack.connection, chosen.quix_python)
            for name, measure in MEASURES.items():
                if chosen.only in (None, name):
                    found[name] = []
                    for one in measure(bench, chosen):
                        print(name, one, flush=True)
                        found[name].append(one)
    report(found, {name: value for name, value in vars(chosen).items() if name != "quix_python"})


def report(found: dict[str, list[dict[str, Any]]], chosen: dict[str, Any]) -> None:
    """The medians of the rounds, and the median of the ratios of each round, as a table and as JSON."""
    table = Table("measure", "contender", "median", "of each round", "beside", "target", title="Deliveries")
    summary: list[dict[str, Any]] = []

    def row(
        measure: str,
        contender: str,
        values: list[float],
        beside: str = "",
        target: str = "",
        met: bool | None = None,
    ) -> None:
        middle = median(values)
        digits = 0 if middle >= 1000 else 3 if measure == "lanes (s)" else 2
        shown = [f"{value:,.{digits}f}" for value in (middle, *values)]
        mark = "" if met is None else (" yes" if met else " NO")
        table.add_row(measure, contender, shown[0], " ".join(shown[1:]), beside, target + mark)
        summary.append(
            {
                "measure": measure,
                "contender": contender,
                "median": middle,
                "beside": beside,
                "target": target,
                "met": met,
            }
        )

    def of(measure: str, contender: str, field: str, **wanted: Any) -> list[float]:
        return [
            entry[field]
            for entry in found.get(measure, ())
            if entry["contender"] == contender and all(entry[name] == value for name, value in wanted.items())
        ]

    if "lanes" in found:
        naps = sleeps(LANE_RECORDS)
        longest = max(sum(naps[key::LANE_KEYS]) for key in range(LANE_KEYS))
        least = max(sum(naps) / LANE_COUNT, longest)
        beside = f"sleep alone: {sum(naps):.1f} s, on {LANE_COUNT} lanes at least {least:.2f} s"
        for contender in LANES:
            values = of("lanes", contender, "seconds")
            row("lanes (s)", contender, values, beside, "2.5 or less", median(values) <= 2.5)
        row("lanes (s)", "Parallel Consumer, published", [2.24], f"U(0, {LONGEST * 1000:.0f}) ms on Java")
    if "throughput" in found:
        beside = {
            one: of("throughput", one, "records_per_second")
            for one in ("bare-poll", "bare-consume", "bare-poll-tuned", "quix")
        }
        for contender in THROUGHPUT:
            values = of("throughput", contender, "records_per_second")
            share = {
                one: median(ours / theirs for ours, theirs in zip(values, others, strict=True))
                for one, others in beside.items()
            }
            cpu = median(of("throughput", contender, "cpu_us_per_record"))
            is_target = contender == "gearshift-async"
            row(
                "throughput (records/s)",
                contender,
                values,
                ", ".join(f"{part:.2f} of {one}" for one, part in share.items())
                + f"; {cpu:.2f} µs of processor",
                "0.60 of bare, 2.00 of quix" if is_target else "",
                min(share["bare-poll"], share["bare-consume"]) >= 0.6 and share["quix"] >= 2
                if is_target
                else None,
            )
    if "latency" in found:
        for contender in LATENCY:
            for field in ("p50_ms", "p99_ms"):
                values = of("latency", contender, field)
                bare = median(of("latency", "bare-poll", field))
                is_target = field == "p50_ms" and contender.startswith("gearshift")
                row(
                    f"latency {field[:3]} (ms)",
                    contender,
                    values,
                    f"{median(values) - bare:+.2f} ms to bare-poll",
                    "under 15" if is_target else "",
                    median(values) < 15 if is_target else None,
                )
    if "hot-key" in found:
        for contender in LANES:
            alone, beside_hot = (of("hot-key", contender, "p99_ms", hot_key=hot) for hot in (False, True))
            ratio = median(b / a for a, b in zip(alone, beside_hot, strict=True))
            is_target = contender == "gearshift-async-16"
            row("p99 of the others (ms)", contender, alone)
            row(
                "p99 of the others (ms)",
                f"{contender}, hot key",
                beside_hot,
                f"{ratio:.2f} of without",
                "2.00 or less" if is_target else "",
                ratio <= 2 if is_target else None,
            )
    Console(width=180).print(table)
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    path = results / f"deliveries-{chosen.get('only') or 'all'}.json"
    size = len(pack(1, encode(next(events(1, 1)))))
    path.write_text(
        json.dumps(
            {"chosen": chosen, "bytes_per_record": size, "summary": summary, "raw": found},
            indent=1,
            default=str,
        )
        + "\n"
    )
    print(f"raw results: {path}")


if __name__ == "__main__":
    main()
