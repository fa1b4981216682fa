"""The app under test: three pipelines and a delivery to every kind of destination, all of one topic."""

from __future__ import annotations

import mmap
import random
import struct
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gearshift as gs
from gearshift.delivery.worker import Worker
from gearshift.destinations import Cassandra, Email, EmailMessage, Postgres, Sms, SmsMessage, Webhook

if TYPE_CHECKING:
    from pyspark.sql import DataFrame  # each consumer imports this file too, and Spark is most of its start

ANSWER_WITHIN = timedelta(seconds=2)
PACE = "4 seconds"
LATEST = -1
"""The number of the row that has the latest record of a key, in Cassandra."""


@dataclass
class Numbered:
    """The n-th record of its key; `size` is how many bytes a delivery to a topic makes of it."""

    key: str
    n: int
    size: int = 0
    padding: str = ""


def declare(*, webhook: str, sms: str, smtp: int, clock: str, mutant: str | None) -> gs.App:
    """The app; with a mutant, one of its promises is broken on purpose."""
    _follow(Path(clock))
    if mutant == "commits-first":
        _commit_first()
    app = gs.App("faults")
    options: dict[str, Any] = {"value": Numbered, "key": "key", "partitions": 3}
    numbered = app.topic("numbered", **options)
    copies = app.topic("copies", **options)
    delivered = app.topic("delivered", **options)
    kept = app.table("kept")
    totals = app.table("totals", key="key")

    @app.pipeline(source=numbered, to=copies, freshness=PACE, gear="near-real-time")
    def copy(numbered: DataFrame) -> DataFrame:
        return numbered

    @app.pipeline(source=numbered, to=kept, freshness=PACE, gear="near-real-time")
    def keep(numbered: DataFrame) -> DataFrame:
        return numbered

    @app.pipeline(source=numbered, to=totals, freshness=PACE, gear="near-real-time")
    def total(numbered: DataFrame) -> DataFrame:
        return numbered.groupBy("key").count()

    # The async one is where a failed write is easiest to pass by.
    @app.delivery(numbered, group_id="postgres", to=Postgres(table="arrivals", create=False), commit="async")
    def to_postgres(record: gs.Record[Numbered]) -> dict[str, Any]:
        return {"key": record.value.key, "n": record.value.n}

    rows = Cassandra(table="faults.arrivals", key=("key", "n"), event_time="at")

    @app.delivery(numbered, group_id="cassandra", to=rows)
    def to_cassandra(record: gs.Record[Numbered]) -> list[dict[str, Any]]:
        value = record.value
        # A row of its own, and one for the latest of its key: an older one that comes again must not replace it.
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=value.n)
        return [{"key": value.key, "n": n, "latest": value.n, "at": at} for n in (value.n, LATEST)]

    @app.delivery(numbered, group_id="topic", to=delivered)
    def to_topic(record: gs.Record[Numbered]) -> Numbered:
        value = record.value
        padding = random.Random(value.n).randbytes(value.size // 2).hex()  # which no compression makes small
        return Numbered(value.key, value.n, padding=padding)

    @app.delivery(numbered, group_id="webhook", to=Webhook(webhook, timeout=ANSWER_WITHIN), parallelism=4)
    def to_webhook(record: gs.Record[Numbered]) -> dict[str, Any]:
        return {"key": record.value.key, "n": record.value.n}

    texts = Sms(account="AC1", token="secret", sender="+15005550006", url=sms, timeout=ANSWER_WITHIN)

    @app.delivery(numbered, group_id="sms", to=texts, once_by=("key", "n"))
    def to_sms(record: gs.Record[Numbered]) -> SmsMessage:
        return SmsMessage("+31612345678", f"{record.value.key} {record.value.n}")

    mail = Email(
        "127.0.0.1", smtp, "a@example.org", user="me", password="secret", tls="none", timeout=ANSWER_WITHIN
    )

    @app.delivery(numbered, group_id="email", to=mail, once_by=("key", "n"))
    def to_email(record: gs.Record[Numbered]) -> EmailMessage:
        return EmailMessage("b@example.org", f"{record.value.key} {record.value.n}", "arrived")

    return app


def _follow(file: Path) -> None:
    """Let this process's wall clock be ahead by the seconds in a file."""
    with file.open("rb") as opened:
        ahead = mmap.mmap(opened.fileno(), 8, access=mmap.ACCESS_READ)
    real = time.time
    time.time = lambda: real() + struct.unpack("d", ahead[:8])[0]


def _commit_first() -> None:
    """The mutant: what was polled is committed before anything is done with it."""
    take_in = Worker._take_in

    def wrong(worker: Any, messages: list[Any]) -> None:
        read = {(m.topic(), m.partition()): m.offset() + 1 for m in messages if m.error() is None}
        worker._consumer.commit(read)
        take_in(worker, messages)

    Worker._take_in = wrong  # pyright: ignore[reportAttributeAccessIssue]
