"""Conversion of Spark's schema, and the errors for unsupported columns."""

from __future__ import annotations

import json

import pytest
from deltalake import Schema

from gearshift.errors import TableError
from gearshift.tables import columns


def spark_schema(**types: object) -> str:
    fields = [{"name": name, "type": kind, "nullable": False, "metadata": {}} for name, kind in types.items()]
    return json.dumps({"type": "struct", "fields": fields})


def test_nested_types_become_nullable_at_every_depth() -> None:
    inner = {
        "type": "struct",
        "fields": [{"name": "x", "type": "double", "nullable": False, "metadata": {"comment": "m"}}],
    }
    array = {"type": "array", "elementType": inner, "containsNull": False}
    table = {"type": "map", "keyType": "string", "valueType": array, "valueContainsNull": False}
    fields = columns.fields_of(spark_schema(m=table), "t")
    assert '"nullable": false' not in json.dumps(fields).lower()
    assert '"containsnull": false' not in json.dumps(fields).lower()
    assert columns.ddl(fields) == "`m` map<string,array<struct<`x`:double>>>"
    assert json.loads(Schema.from_json(columns.schema_json(fields)).to_json())["fields"] == fields


def test_fixed_length_texts_are_strings() -> None:
    fields = columns.fields_of(spark_schema(a="char(3)", b="varchar(5)"), "t")
    assert [field["type"] for field in fields] == ["string", "string"]


@pytest.mark.parametrize("kind", ["void", "variant", "interval day to second", {"type": "udt", "class": "x"}])
def test_an_unsupported_type_is_an_error_with_its_path(kind: object) -> None:
    nested = {"type": "array", "elementType": kind, "containsNull": True}
    with pytest.raises(TableError, match=r"table t: column a\.element is .*, which tables do not support; "):
        columns.fields_of(spark_schema(a=nested), "t")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "A"], "column a occurs twice"),
        (["a b"], "'a b' is not a valid column name"),
        (["gearshift_write"], "is not a valid column name"),
    ],
)
def test_invalid_and_ambiguous_names_are_errors(names: list[str], message: str) -> None:
    with pytest.raises(TableError, match=message):
        columns.fields_of(spark_schema(**dict.fromkeys(names, "long")), "t")


@pytest.mark.parametrize(
    ("partition_by", "message"),
    [
        (["week"], "is partitioned by week, which the rows do not have; use one of the columns n, at, tags"),
        (["at"], r"cannot be partitioned by at, which is timestamp_ltz; .*to_date"),
        (["tags"], "cannot be partitioned by tags, which is array<string>"),
    ],
)
def test_a_partition_column_must_exist_and_fit_a_folder_name(partition_by: list[str], message: str) -> None:
    tags = {"type": "array", "elementType": "string", "containsNull": True}
    fields = columns.fields_of(spark_schema(n="long", at="timestamp", tags=tags), "t")
    with pytest.raises(TableError, match=message):
        columns.check_partitions(fields, partition_by, "t")


def test_a_table_needs_a_column_other_than_its_partitions() -> None:
    with pytest.raises(TableError, match="only partition columns"):
        columns.check_partitions(columns.fields_of(spark_schema(n="long"), "t"), ["n"], "t")
