"""What handlers return, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from gearshift.destinations import Cassandra, Delete, Postgres
from gearshift.destinations.cassandra_driver import ContactPoints
from gearshift.destinations.postgres_statements import sql_type
from gearshift.destinations.rows import entries, kinds
from gearshift.errors import DefinitionError, DeliveryError, PermanentError
from gearshift.record import Change, Op, Record, Row


@dataclass
class Reading:
    meter_id: str
    load_kw: float | None


def row(value: Any) -> Row:
    return Row(value, Record(value, None, "readings", 2, 17, datetime.now(UTC)))


def test_dataclasses_mappings_and_deletions_are_rows_and_none_is_nothing() -> None:
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
        (17, "int is no row for meters"),
        (Delete(meter_id=None), "the key column meter_id of meters is None"),
    ],
)
def test_what_is_no_row_is_refused_with_the_place_of_its_record(value: Any, words: str) -> None:
    with pytest.raises(PermanentError, match=words) as refused:
        entries([row(value)], ("meter_id",), "meters")
    assert (refused.value.topic, refused.value.partition, refused.value.offset) == ("readings", 2, 17)


def test_a_row_without_the_key_column_is_the_setups_fault_and_no_records() -> None:
    for value in ({"load_kw": 1.0}, Change(op=Op.DELETE, key={"id": 1})):
        with pytest.raises(DeliveryError, match="a row for meters has no key column meter_id") as stopped:
            entries([row(value)], ("meter_id",), "meters")
        assert not isinstance(stopped.value, PermanentError)
        assert (stopped.value.topic, stopped.value.partition, stopped.value.offset) == ("readings", 2, 17)


def test_columns_get_their_types_from_the_dataclass_or_the_first_value_that_is_not_none() -> None:
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
        DefinitionError, match=r"is no table's name \(.*test_rows.py:\d+\); write keyspace\.table"
    ):
        Cassandra(table=table, key="a", event_time="b")


def test_addresses_with_passwords_stay_out_of_every_repr() -> None:
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
