"""What a consumer process is told to run, and how to fail."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import gearshift as gs
from gearshift.connection import Connection
from gearshift.destinations import Cassandra, Postgres, Webhook

LATEST = -1
"""The number of the row that has the latest record of a key, in Cassandra."""


@dataclass
class Numbered:
    """A record that can be told from every other."""

    key: str
    n: int
    padding: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One delivery of one topic, and the faults of one process that runs it."""

    name: str
    file: str
    connection: dict[str, Any] = field(default_factory=dict[str, Any])
    partitions: int = 2
    replicas: int | None = None
    # the delivery
    to: str | None = None
    commit: str = "sync"
    start: str = "earliest"
    batch_size: int | None = None
    once: bool = False
    parallelism: int = 1
    retry: str = "5 minutes"
    # the process
    member: str = "0"
    in_flight: int = 20_000
    max_poll_interval: float = 300.0
    commits_first: bool = False
    # the faults
    sleep: float = 0.0
    sleep_once: float = 0.0
    """How long the first call of the process takes."""
    poison: int = 0
    """Every so many-th record of a key makes the handler raise."""
    die_in: str = ""
    """`handler`, when it has done its work; `commit`, when it is about to happen; or `transaction`, likewise."""
    die_at: int = 0
    """At which call of it."""
    die_by: str = "kill"
    failing_commits: float = 0.0
    """For how many seconds no commit is taken."""

    @property
    def asked(self) -> Connection:
        """How to reach the stack."""
        return Connection(**self.connection)

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @classmethod
    def of_json(cls, text: str) -> Plan:
        """From text."""
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """The app of a plan."""

    app: gs.App
    topic: gs.Topic
    copies: gs.Topic
    delivery: Any


class Fault:
    """Ends the process at a certain moment, or stops it there."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._left = plan.die_at

    def reached(self, point: str) -> None:
        """A point was reached."""
        if point != self._plan.die_in or not self._left:
            return
        self._left -= 1
        if not self._left:
            if self._plan.die_by == "exit":
                os._exit(3)
            os.kill(os.getpid(), signal.SIGSTOP if self._plan.die_by == "stop" else signal.SIGKILL)


def declare(plan: Plan, fault: Fault) -> Declared:
    """The app, with a handler that writes down each record it was given."""
    app = gs.App(plan.name)
    options: dict[str, Any] = {"value": Numbered, "key": "key", "replicas": plan.replicas}
    topic = app.topic(plan.name, partitions=plan.partitions, **options)
    copies = app.topic(f"{plan.name}-copies", partitions=plan.partitions, **options)
    file = os.open(plan.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    began = {"calls": 0}

    def refuse(record: gs.Record[Numbered]) -> None:
        value = record.value
        if plan.poison and value.n % plan.poison == plan.poison - 1:
            raise ValueError(f"{value.key}/{value.n} is poison")

    def handle(record: gs.Record[Numbered]) -> Any:
        began["calls"] += 1
        call = began["calls"]
        value = record.value
        if plan.sleep_once and call == 1:
            time.sleep(plan.sleep_once)
        if plan.sleep:
            time.sleep(plan.sleep)
        waited = time.time() - record.timestamp.timestamp() if record.timestamp else 0.0
        line = f"{value.key},{value.n},{os.getpid()},{record.partition},{record.offset},{waited:.4f}\n"
        os.write(file, line.encode())
        fault.reached("handler")
        return _result(plan, value)

    options = {
        "group_id": plan.name,
        "to": _target(plan, copies),
        "commit": plan.commit,
        "start": plan.start,
        "batch_size": plan.batch_size,
        "once_by": ("key", "n") if plan.once else (),
        "parallelism": plan.parallelism,
        "retry": plan.retry,
    }
    deliver: Callable[..., Any]
    if plan.batch_size is None:

        @app.delivery(topic, **options)
        def deliver(record: gs.Record[Numbered]) -> Any:
            refuse(record)
            return handle(record)
    else:

        @app.delivery(topic, **options)
        def deliver(records: list[gs.Record[Numbered]]) -> Any:
            for record in records:  # all or nothing, as a handler of lists should be
                refuse(record)
            return [handle(record) for record in records]

    return Declared(app=app, topic=topic, copies=copies, delivery=app.graph.deliveries["deliver"])


def _target(plan: Plan, copies: gs.Topic) -> Any:
    if plan.to is None:
        return None
    if plan.to == "topic":
        return copies
    if plan.to.startswith("http"):
        return Webhook(plan.to, timeout=timedelta(seconds=5))
    if plan.to.startswith("cassandra"):
        points = plan.to.partition(" ")[2]
        return Cassandra(
            table=f"{plan.name}.numbered", key=("key", "n"), event_time="at", contact_points=points
        )
    return Postgres(table=plan.name, dsn=plan.to, create=False)


def _result(plan: Plan, value: Numbered) -> Any:
    if plan.to is None:
        return None
    if plan.to.startswith("cassandra"):
        # A row of its own, and one for the latest of its key: an older one that comes again must not replace it.
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=value.n)
        return [{"key": value.key, "n": n, "latest": value.n, "at": at} for n in (value.n, LATEST)]
    return value if plan.to == "topic" else {"key": value.key, "n": value.n}
