"""The guarantee of every destination: docs/guarantees.md shows this table, and the harness checks each row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.faults.harness.world import World

ONCE = "exactly once"


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A row of the table; `duplicates` is the most that this run's faults may have caused."""

    destination: str
    arrives: str
    gap: str
    duplicates: Callable[[World], int] = lambda world: 0


GUARANTEES = {
    "kept": Guarantee("table", ONCE, "none: a batch's files and its id are one Delta commit"),
    "totals": Guarantee("table with a key", ONCE, "none: the same, and a row replaces the one with its key"),
    "copies": Guarantee(
        "topic, written by a pipeline",
        "at least once",
        "the batch in progress when a query is killed is written again; `gearshift ledger` counts those records",
        lambda world: world.data("ledger", "copy")[0]["replayed"],
    ),
    "topic": Guarantee(
        "topic, written by a delivery",
        ONCE,
        "none for readers with `isolation.level=read_committed`: results and offsets are one transaction",
    ),
    "postgres": Guarantee("`Postgres`", ONCE, "none: rows and offsets are one transaction"),
    "cassandra": Guarantee(
        "`Cassandra`",
        ONCE,
        "none: a record written again is the same row, and an older one never replaces a newer one",
    ),
    "webhook": Guarantee(
        "`Webhook`, to a receiver that honours `Idempotency-Key`",
        ONCE,
        "to one that does not, a request without an answer and a crash may each repeat a record",
    ),
    "sms": Guarantee(
        "`Sms` with `once_by`",
        "once, up to the gap",
        "a request without an answer, or a crash before it is recorded, may repeat a text; the key is the same",
        lambda world: world.sms.unknown + world.kills,
    ),
    "email": Guarantee(
        "`Email` with `once_by`",
        "once, up to the gap",
        "the same, with the same `Message-ID`",
        lambda world: world.lost_mail_answers + world.kills,
    ),
}


def table() -> str:
    """The table of docs/guarantees.md."""
    lines = ["| destination | a record arrives | the gap that remains |", "|---|---|---|"]
    lines += [f"| {each.destination} | {each.arrives} | {each.gap} |" for each in GUARANTEES.values()]
    return "\n".join(lines)
