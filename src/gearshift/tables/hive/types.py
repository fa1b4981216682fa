"""A table's columns as Hive's metastore keeps them, and as Spark finds them there again. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from gearshift.errors import TableError
from gearshift.tables.columns import Field, type_name

_SCHEMA = "spark.sql.sources.schema"
_PART = 4000  # of a property's text, as long as the oldest metastores keep one
_TIMES = {"timestamp": "timestamp", "timestamp_ntz": "timestamp"}  # Hive's own has no zone


def hive_columns(fields: Sequence[Field], table: str) -> tuple[tuple[str, str], ...]:
    """Names and types; Hive has small letters only.

    >>> hive_columns([{"name": "Price", "type": "decimal(12,2)"}, {"name": "at", "type": "timestamp"}], "bills")
    (('price', 'decimal(12,2)'), ('at', 'timestamp'))
    """
    return tuple(
        (str(field["name"]).lower(), _type(field["type"], table, str(field["name"]))) for field in fields
    )


def spark_schema(fields: Sequence[Field], partition_by: Sequence[str]) -> dict[str, str]:
    """The properties in which Spark keeps a schema with its upper and lower case, and reads it from.

    >>> spark_schema([{"name": "Id", "type": "long"}], ())
    {'spark.sql.sources.schema': '{"type": "struct", "fields": [{"name": "Id", "type": "long"}]}'}
    """
    last = [field for field in fields if field["name"] in partition_by]
    ordered = [field for field in fields if field not in last] + last
    text = json.dumps(_zoned({"type": "struct", "fields": ordered}))
    if len(text) <= _PART:
        told = {_SCHEMA: text}
    else:
        parts = [text[at : at + _PART] for at in range(0, len(text), _PART)]
        told = {f"{_SCHEMA}.part.{number}": part for number, part in enumerate(parts)}
        told[f"{_SCHEMA}.numParts"] = str(len(parts))
    if partition_by:
        told[f"{_SCHEMA}.numPartCols"] = str(len(partition_by))
        told |= {f"{_SCHEMA}.partCol.{number}": name for number, name in enumerate(partition_by)}
    return told


def _zoned(kind: Any) -> Any:
    """A type with Hive's one timestamp in it: Spark believes a schema only if it is the metastore's own."""
    if isinstance(kind, dict):
        return {name: _zoned(inner) for name, inner in kind.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(kind, list):
        return [_zoned(inner) for inner in kind]  # pyright: ignore[reportUnknownVariableType]
    return "timestamp" if kind == "timestamp_ntz" else kind


def _type(kind: Any, table: str, path: str) -> str:
    if isinstance(kind, str):
        return _TIMES.get(kind) or type_name(kind)
    match kind["type"]:
        case "array":
            return f"array<{_type(kind['elementType'], table, path)}>"
        case "map":
            return f"map<{_type(kind['keyType'], table, path)},{_type(kind['valueType'], table, path)}>"
        case _:
            inner = (_inner(field, table, path) for field in kind["fields"])
            return f"struct<{','.join(inner)}>"


def _inner(field: Field, table: str, path: str) -> str:
    name = str(field["name"])
    if not re.fullmatch(r"\w+", name):
        raise TableError(
            f"table {table}: Hive cannot hold {path}.{name}",
            hint="use letters, digits and _ in the names of fields",
        )
    return f"{name.lower()}:{_type(field['type'], table, f'{path}.{name}')}"
