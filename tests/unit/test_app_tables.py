"""Declarations of tables, and the errors of invalid ones."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import gearshift as gs
from gearshift.errors import DefinitionError, SettingsError
from gearshift.settings import load


def test_a_table_takes_its_columns_as_one_name_or_several() -> None:
    table = gs.App("shop").table(
        "orders", partition_by="day", key=("shop", "order_id"), sequence_by="updated_at", deleted="is_deleted"
    )
    assert (table.partition_by, table.key) == (("day",), ("shop", "order_id"))
    assert (table.sequence_by, table.deleted, table.on_schema_change) == (
        ("updated_at",),
        "is_deleted",
        "append_new_columns",
    )


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"sequence_by": "at"}, "table orders has sequence_by but no key"),
        ({"deleted": "gone"}, "table orders has deleted but no key"),
        ({"key": ("a", "a")}, "table orders names a column twice: a, a"),
        ({"key": "a", "deleted": "a"}, "table orders does not store column a, which marks deleted rows"),
        ({"on_schema_change": "loose"}, "table orders has on_schema_change='loose'"),
    ],
)
def test_a_table_that_cannot_be_is_refused(rules: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        gs.App("shop").table("orders", **rules)


def test_maintenance_is_a_duration_or_none() -> None:
    def read(text: str) -> timedelta | None:
        return load(folder=Path("/nowhere"), environ={"GEARSHIFT_MAINTENANCE": text}).maintenance

    assert load(folder=Path("/nowhere"), environ={}).maintenance == timedelta(days=1)
    assert (read("6 hours"), read("none")) == (timedelta(hours=6), None)
    for wrong in ("5 seconds", "never", "off"):
        with pytest.raises(SettingsError, match="setting maintenance: "):
            read(wrong)
