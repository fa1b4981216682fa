"""Return values of handlers as table rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from gearshift.destinations import Cassandra, Delete, Postgres
from gearshift.destinations.cassandra.driver import ContactPoints
from gearshift.destinations.postgres.statements import sql_type
from gearshift.destinations.rows import entries, kinds, still_valid
from gearshift.errors import DefinitionError, DeliveryError, PermanentError
from gearshift.record import Change, Op, Record, Row


@dataclass
class Reading:
    meter_id: str
    load_kw: float | None


def row(value: Any) -> Row:
    return Row(value, Record(value, None, "readings", 2, 17, datetime.now(UTC)))


def test_dataclasses_mappings_and_deletions_are_rows_and_none_is_skipped() -> None:
    rows = [row(Reading("m1", 2.5)), row({"meter_id": "m2"}), row(Delete(meter_id="m3")), row(None)]
    found = entries(rows, ("meter_id",), "meters")
    assert [(entry.columns, entry.deletes) for entry in found] == [
        ({"meter_id": "m1", "load_kw": 2.5}, False),
        ({"meter_id": "m2"}, False),
        ({"meter_id": "m3"}, True),
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (17, "int cannot be written to meters"),
        (Delete(meter_id=None), "the key column meter_id of meters is None"),
    ],
)
def test_a_value_that_is_not_a_row_is_rejected_with_its_topic_partition_and_offset(
    value: Any, words: str
) -> None:
    with pytest.raises(PermanentError, match=words) as refused:
        entries([row(value)], ("meter_id",), "meters")
    assert (refused.value.topic, refused.value.partition, refused.value.offset) == ("readings", 2, 17)


def test_a_row_without_the_key_column_stops_the_delivery() -> None:
    for value in ({"load_kw": 1.0}, Change(op=Op.DELETE, key={"id": 1})):
        with pytest.raises(DeliveryError, match="a row for meters has no key column meter_id") as stopped:
            entries([row(value)], ("meter_id",), "meters")
        assert not isinstance(stopped.value, PermanentError)
        assert (stopped.value.topic, stopped.value.partition, stopped.value.offset) == ("readings", 2, 17)


def test_column_types_come_from_the_dataclass_or_the_first_value_that_is_not_none() -> None:
    found = entries(
        [row(Reading("m1", None)), row({"n": None, "tags": ["a"]}), row({"n": True, "deep": [["a"]]})],
        (),
        "t",
    )
    assert {name: sql_type(kind) for name, kind in kinds(found, "t").items()} == {
        "meter_id": "text",
        "load_kw": "double precision",
        "n": "boolean",
        "tags": "text[]",
        "deep": "jsonb",
    }
    with pytest.raises(DeliveryError, match="the first values of column n are None"):
        kinds(entries([row({"n": None})], (), "t"), "t")


@pytest.mark.parametrize("table", ["", "a.", "a.b.c", "plain"])
def test_a_table_needs_a_name(table: str) -> None:
    with pytest.raises(
        DefinitionError, match=r"invalid table name .* \(.*test_rows.py:\d+\); write keyspace\.table"
    ):
        Cassandra(table=table, key="a", event_time="b")


def test_passwords_are_not_in_any_repr() -> None:
    assert "secret" not in repr(ContactPoints.read("ann:secret@host?tls=true"))
    assert "secret" not in repr(Postgres(table="t", dsn="postgresql://ann:secret@host/x"))
    assert "secret" not in repr(
        Cassandra(table="k.t", key="a", event_time="b", contact_points="a:secret@h?tls=true")
    )


def test_a_change_of_a_captured_table_is_a_row_or_a_deletion_by_its_key() -> None:
    here, moved = Reading("m1", 2.5), Reading("m2", 2.5)
    found = entries(
        [
            row(Change(op=Op.READ, after=here)),
            row(Change(op=Op.DELETE, key={"meter_id": "m1"})),
            row(Change(op=Op.UPDATE, before=here, after=moved)),
            row(Change(op=Op.MESSAGE)),
            row(Change(op=Op.TRUNCATE)),
        ],
        ("meter_id",),
        "meters",
    )
    assert [(entry.columns.get("meter_id"), entry.deletes, entry.empties) for entry in found] == [
        ("m1", False, False),
        ("m1", True, False),
        ("m1", True, False),
        ("m2", False, False),
        (None, True, True),
    ]


class Replayed(Record[Any]):
    """A dead letter that came back."""

    @property
    def origin(self) -> tuple[str, int, int]:
        return "meters", 0, 17


def test_the_first_row_of_a_snapshot_takes_nothing_away_when_it_is_a_replayed_dead_letter() -> None:
    first = Change(op=Op.READ, after={"meter_id": "m1"}, position=1017, epoch=1000, restarts=True)
    for topic, empties in (("meters", [True, False]), ("meters.replay", [False])):
        record = Replayed(first, None, topic, 0, 3, None)
        written = entries([Row(first, record)], ("meter_id",), "meters")
        assert [entry.empties for entry in written] == empties


def test_changes_from_before_a_truncate_or_a_new_snapshot_are_void() -> None:
    def change(op: Op, position: int, *, epoch: int | None = 1000, restarts: bool = False) -> Row:
        after = None if op is Op.TRUNCATE else {"meter_id": f"m{position}"}
        return row(Change(op=op, after=after, position=position, epoch=epoch, restarts=restarts))

    written = entries(
        [
            change(Op.CREATE, 1001),
            change(Op.TRUNCATE, 2002),
            change(Op.CREATE, 1003),
            change(Op.READ, 2004, restarts=True),
            change(Op.CREATE, 7, epoch=None),
        ],
        ("meter_id",),
        "meters",
    )
    valid, since = still_valid(written, 0)
    assert [(entry.empties, entry.change and entry.change.position) for entry in valid] == [
        (False, 1001),
        (True, 2002),
        (True, 2003),
        (False, 2004),
        (False, 7),
    ]
    assert since == 2004
    again, since = still_valid(written, since)
    assert [entry.change and entry.change.position for entry in again] == [2004, 7]
    assert since == 2004
