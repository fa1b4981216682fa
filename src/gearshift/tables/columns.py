"""Converts columns from Spark's schema to Delta's, and to Spark's DDL."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, cast

from gearshift.errors import TableError
from gearshift.tables.partitions import WRITE_FOLDER

_SQL_NAMES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "timestamp": "timestamp_ltz",
}
_SIMPLE = {*_SQL_NAMES, "boolean", "float", "double", "string", "binary", "date", "timestamp_ntz"}
_PARTITION_TYPES = ("string", "byte", "short", "integer", "long", "boolean", "date")
_HINTS = {
    "void": "give it a type, such as cast(null as string)",
    "variant": "write it as a string with to_json",
}

Field = dict[str, Any]


def fields_of(spark_schema_json: str, table: str) -> list[Field]:
    """The Delta fields of a Spark schema: the same types, all nullable, without Spark's metadata.

    Every column is nullable, because the nullability that Spark infers changes with the query, not with the data.

    >>> schema = '{"type":"struct","fields":[{"name":"n","type":"long","nullable":false,"metadata":{"m":1}}]}'
    >>> fields_of(schema, "bills")
    [{'name': 'n', 'type': 'long', 'nullable': True, 'metadata': {}}]
    """
    fields = [_field(field, table, ()) for field in json.loads(spark_schema_json)["fields"]]
    names = [str(field["name"]) for field in fields]
    for name in names:
        if sum(name.lower() == other.lower() for other in names) > 1:
            raise TableError(
                f"table {table}: column {name} occurs twice", hint="rename or drop one of the two"
            )
        if name == WRITE_FOLDER or re.search(r"[ ,;{}()\n\t=]", name):
            raise TableError(
                f"table {table}: {name!r} is not a valid column name",
                hint=f"use a name without spaces and ,;{{}}()= and other than {WRITE_FOLDER}",
            )
    return fields


def schema_json(fields: Sequence[Field]) -> str:
    """The Delta schema of these fields as JSON."""
    return json.dumps({"type": "struct", "fields": list(fields)})


def ddl(fields: Sequence[Field]) -> str:
    """The columns as a DDL string for Spark.

    >>> ddl([{"name": "n", "type": "long"}, {"name": "at", "type": "timestamp"}])
    '`n` bigint, `at` timestamp_ltz'
    """
    return ", ".join(f"{quoted(field['name'])} {type_name(field['type'])}" for field in fields)


def quoted(name: str) -> str:
    """A column's name as an SQL identifier.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def type_name(kind: Any) -> str:
    """The SQL name of a type.

    >>> type_name({"type": "array", "elementType": "long", "containsNull": True})
    'array<bigint>'
    """
    if isinstance(kind, str):
        return _SQL_NAMES.get(kind, kind)
    if kind["type"] == "array":
        return f"array<{type_name(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{type_name(kind['keyType'])},{type_name(kind['valueType'])}>"
    inner = ",".join(f"{quoted(field['name'])}:{type_name(field['type'])}" for field in kind["fields"])
    return f"struct<{inner}>"


def check_partitions(fields: Sequence[Field], partition_by: Sequence[str], table: str) -> None:
    """Raise for partition columns that do not exist, or whose type cannot be part of a folder's name."""
    types = {str(field["name"]): field["type"] for field in fields}
    for name in partition_by:
        kind = types.get(name)
        if kind is None:
            raise TableError(
                f"table {table} is partitioned by {name}, which the rows do not have",
                hint=f"use one of the columns {', '.join(types)}",
            )
        if kind not in _PARTITION_TYPES:
            raise TableError(
                f"table {table} cannot be partitioned by {name}, which is {type_name(kind)}",
                hint="partition by a string, an integer, a boolean or a date, such as to_date(…)",
            )
    if len(partition_by) == len(types):
        raise TableError(
            f"table {table} has only partition columns", hint="remove a column from partition_by"
        )


def _field(field: Field, table: str, above: tuple[str, ...]) -> Field:
    path = (*above, str(field["name"]))
    return {
        "name": field["name"],
        "type": _type(field["type"], table, path),
        "nullable": True,
        "metadata": {},
    }


def _type(kind: Any, table: str, path: tuple[str, ...]) -> Any:
    if isinstance(kind, str):
        if kind in _SIMPLE or kind.startswith("decimal("):
            return kind
        if re.match(r"(char|varchar)\(|string\b", kind):
            return "string"
    else:
        nested = cast("dict[str, Any]", kind)
        match nested["type"]:
            case "array":
                return {
                    "type": "array",
                    "elementType": _type(nested["elementType"], table, (*path, "element")),
                    "containsNull": True,
                }
            case "map":
                return {
                    "type": "map",
                    "keyType": _type(nested["keyType"], table, (*path, "key")),
                    "valueType": _type(nested["valueType"], table, (*path, "value")),
                    "valueContainsNull": True,
                }
            case "struct":
                return {
                    "type": "struct",
                    "fields": [_field(inner, table, path) for inner in nested["fields"]],
                }
            case other:
                kind = other
    hint = _HINTS.get(kind, "cast it to a type that Delta supports, such as string")
    raise TableError(
        f"table {table}: column {'.'.join(path)} is {kind}, which tables do not support", hint=hint
    )
