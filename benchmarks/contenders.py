"""Those that read a topic in benchmarks/deliveries.py, one in a process of its own.

It prints `ready` when it handles its first record and `done` with a JSON object when it handled the last:
the seconds between the two, the processor time of the whole process in between, and, where the load asks
for it, when each record was handled, by its offset in the only partition. Quix Streams brings its own
confluent-kafka and so has a virtual environment of its own: nothing here is imported before it is needed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# What a load's handler does: nothing, note the time, or take its time (in seconds, by the record's number).
NO_OP, TIMES, SLEEPS, SHORT = "no-op", "times", "sleeps", "short"
LONGEST = 0.005
EACH = 0.002


@dataclass
class Event:
    key: str
    n: int
    text: str


def sleeps(records: int) -> list[float]:
    """How long the handler sleeps over each record: the same for every contender."""
    chance = random.Random(4)
    return [chance.uniform(0, LONGEST) for _ in range(records)]


class Tally:
    """Counts handled records, and knows when the first and the last were."""

    def __init__(self, total: int, load: str) -> None:
        self.total = total
        self.load = load
        self.times: list[tuple[int, float]] = []
        self._count = itertools.count(1)

    def begin(self) -> None:
        print("ready", flush=True)
        self._began = time.perf_counter()
        self._cpu = time.process_time()

    def end(self) -> None:
        took, cpu = time.perf_counter() - self._began, time.process_time() - self._cpu
        print("done", json.dumps({"seconds": took, "cpu": cpu, "times": self.times}), flush=True)

    def one_more(self) -> bool:
        """Count a record; whether it was the last."""
        count = next(self._count)
        if count == 1:
            self.begin()
        if count == self.total:
            self.end()
            return True
        return False


def bare_poll(options: argparse.Namespace, tally: Tally) -> None:
    """The basic loop of confluent-kafka's own documentation."""
    consumer = _bare(options)
    noting, one_more = tally.load == TIMES, tally.one_more
    while True:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            raise SystemExit(message.error())
        message.value()
        if noting:
            tally.times.append((message.offset(), time.time()))
        if one_more():
            break
    consumer.close()


def bare_consume(options: argparse.Namespace, tally: Tally) -> None:
    """The same with 500 records at a time, the fastest a loop can be; no loop that wants its first record soon."""
    consumer = _bare(options)
    ended = False
    while not ended:
        for message in consumer.consume(500, 0.1):
            if message.error():
                raise SystemExit(message.error())
            message.value()
            ended = tally.one_more()
    consumer.close()


def _bare(options: argparse.Namespace) -> Any:
    from confluent_kafka import Consumer

    # By default librdkafka fetches nothing for a second once its queue is full, and that is what bounds the
    # loop of the documentation; `tuned` shows the loop without that bound.
    tuned = {"fetch.queue.backoff.ms": 50} if options.contender == "bare-poll-tuned" else {}

    consumer = Consumer(
        {
            "bootstrap.servers": options.connection["bootstrap_servers"],
            **options.connection["kafka"],
            "group.id": options.group,
            "auto.offset.reset": "earliest",
            **tuned,
        }
    )
    consumer.subscribe([options.topic])
    return consumer


def gearshift(options: argparse.Namespace, tally: Tally) -> None:
    """A delivery, as `gearshift run` works on it."""
    import gearshift as gs
    from gearshift.connection import Connection
    from gearshift.delivery.worker import Worker
    from gearshift.runner.deliveries.consumer_process import relax_garbage_collector

    relax_garbage_collector()  # as the process of a delivery does
    app = gs.App("benchmark")
    source = app.topic(options.topic, value=Event, key="key")
    _, commit, *lanes = options.contender.split("-")
    naps = sleeps(tally.total) if tally.load == SLEEPS else []
    one_more = tally.one_more

    def count(_record: gs.Record[Event]) -> None:
        if one_more():
            worker.stop()

    def note(record: gs.Record[Event]) -> None:
        tally.times.append((record.offset, time.time()))
        count(record)

    def nap(record: gs.Record[Event]) -> None:
        time.sleep(naps[record.value.n])
        count(record)

    def note_and_nap(record: gs.Record[Event]) -> None:
        tally.times.append((record.offset, time.time()))
        time.sleep(EACH)
        count(record)

    handlers: dict[str, Callable[[gs.Record[Event]], None]] = {
        NO_OP: count,
        TIMES: note,
        SLEEPS: nap,
        SHORT: note_and_nap,
    }
    handler = handlers[tally.load]
    app.delivery(source, group_id=options.group, commit=commit, parallelism=int(lanes[0]) if lanes else 1)(
        handler
    )
    worker = Worker(app.graph.deliveries[handler.__name__], app.name, Connection(**options.connection))
    worker.run()


def quix(options: argparse.Namespace, tally: Tally) -> None:
    """A dataframe over plain bytes, so that Quix Streams decodes nothing, with its usual settings."""
    from tempfile import TemporaryDirectory

    from quixstreams import Application, message_context
    from quixstreams.kafka.configuration import ConnectionConfig

    with TemporaryDirectory() as folder:
        app = Application(
            broker_address=ConnectionConfig(
                bootstrap_servers=options.connection["bootstrap_servers"],
                **{name.replace(".", "_"): value for name, value in options.connection["kafka"].items()},
            ),
            consumer_group=options.group,
            auto_offset_reset="earliest",
            state_dir=folder,
            loglevel="WARNING",
        )
        topic = app.topic(options.topic, key_deserializer="bytes", value_deserializer="bytes")

        def count(value: bytes) -> bytes:
            if tally.load == TIMES:
                tally.times.append((message_context().offset, time.time()))
            if tally.one_more():
                app.stop()
            return value

        app.dataframe(topic).apply(count)
        app.run()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    for name in ("contender", "load", "topic", "records", "group"):
        options.add_argument(name)
    chosen = options.parse_args()
    chosen.connection = json.loads(os.environ["BENCH_CONNECTION"])
    run = {
        "bare-poll": bare_poll,
        "bare-poll-tuned": bare_poll,
        "bare-consume": bare_consume,
        "quix": quix,
    }.get(chosen.contender, gearshift)
    run(chosen, Tally(int(chosen.records), chosen.load))


if __name__ == "__main__":
    main()
