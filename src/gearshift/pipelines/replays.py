"""Counts what a stretch wrote into its target without having it committed: the records a consumer sees again."""

from __future__ import annotations

from datetime import UTC, datetime

from gearshift.connection import Connection
from gearshift.definitions import Topic
from gearshift.pipelines.ledger import Stretch
from gearshift.topics import Admin, read

STAMP = "gearshift.batch"


def count_replays(
    connection: Connection, admin: Admin, pipeline: str, target: Topic, stretch: Stretch
) -> int:
    """The records of the stretch whose batch never counted.

    Each record carries its stretch and batch time, and a batch that counted is no later than the
    stretch's last one; so only the tail of the target from there on has to be read.
    """
    since = (
        datetime.fromtimestamp(stretch.last_timestamp_ms / 1000, UTC)
        if stretch.last_timestamp_ms
        else stretch.began
    )
    starts = {partition: offset for (_, partition), offset in admin.offsets_at([target.name], since).items()}
    prefix = f"{pipeline}/{stretch.number}/".encode()
    count = 0
    for record in read(connection, target.name, start=starts):
        stamp = record.header(STAMP)
        if stamp and stamp.startswith(prefix) and int(stamp[len(prefix) :]) > stretch.last_timestamp_ms:
            count += 1
    return count
