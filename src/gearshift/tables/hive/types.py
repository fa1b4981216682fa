"""A table's columns in the form of Hive's metastore, and of Spark's schema properties there. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from gearshift.errors import TableError
from gearshift.tables.columns import Field, type_name

_SCHEMA = "spark.sql.sources.schema"
_PART = 4000  # characters; the oldest metastores store no longer property
_TIMES = {"timestamp": "timestamp", "timestamp_ntz": "timestamp"}  # Hive's timestamp has no zone


def hive_columns(fields: Sequence[Field], table: str) -> tuple[tuple[str, str], ...]:
    """Names and types for Hive, whose names are lowercase.

    >>> hive_columns([{"name": "Price", "type": "decimal(12,2)"}, {"name": "at", "type": "timestamp"}], "bills")
    (('price', 'decimal(12,2)'), ('at', 'timestamp'))
    """
    return tuple(
        (str(field["name"]).lower(), _type(field["type"], table, str(field["name"]))) for field in fields
    )


def spark_schema(fields: Sequence[Field], partition_by: Sequence[str]) -> dict[str, str]:
    """The table properties in which Spark stores a schema with the case of its names.

    >>> spark_schema([{"name": "Id", "type": "long"}], ())
    {'spark.sql.sources.schema': '{"type": "struct", "fields": [{"name": "Id", "type": "long"}]}'}
    """
    last = [field for field in fields if field["name"] in partition_by]
    ordered = [field for field in fields if field not in last] + last
    text = json.dumps(_zoned({"type": "struct", "fields": ordered}))
    if len(text) <= _PART:
        properties = {_SCHEMA: text}
    else:
        parts = [text[at : at + _PART] for at in range(0, len(text), _PART)]
        properties = {f"{_SCHEMA}.part.{number}": part for number, part in enumerate(parts)}
        properties[f"{_SCHEMA}.numParts"] = str(len(parts))
    if partition_by:
        properties[f"{_SCHEMA}.numPartCols"] = str(len(partition_by))
        properties |= {f"{_SCHEMA}.partCol.{number}": name for number, name in enumerate(partition_by)}
    return properties


def _zoned(kind: Any) -> Any:
    """A type with Hive's only timestamp type: Spark ignores a schema that differs from the metastore's."""
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
            f"table {table}: Hive does not support the field name {path}.{name}",
            hint="use letters, digits and _ in the names of fields",
        )
    return f"{name.lower()}:{_type(field['type'], table, f'{path}.{name}')}"
