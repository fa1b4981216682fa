"""Finds values that Spark supports and other readers of a table do not: invalid UTF-8, years beyond 9999."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gearshift.definitions import Table
from gearshift.errors import InvalidRowsError, TableError
from gearshift.tables.columns import Field, fields_of, quoted, type_name

UNREADABLE = "GEARSHIFT_UNREADABLE"
_FIRST, _LAST = "0001-01-01", "9999-12-31"
_WORDS = {
    "string": "is not valid UTF-8",
    "date": "is not between the years 1 and 9999",
    "timestamp": "is not between the years 1 and 9999",
    "timestamp_ntz": "is not between the years 1 and 9999",
}
_SHOWN = {
    "string": "concat('0x', hex(left(cast({0} as binary), 32)))",
    "date": "concat(cast(unix_date({0}) as string), ' days since 1970')",
    "timestamp": "concat(cast(unix_micros({0}) as string), ' microseconds since 1970')",
}


def why_unreadable(fields: Sequence[Field], within: str = "") -> str:
    """An SQL expression for which field is unreadable and why; null if none is.

    >>> why_unreadable([{"name": "n", "type": "long"}])
    'cast(null as string)'
    """
    cases = [
        f"WHEN {condition} THEN {literal(str(field['name']) + ' ' + unreadable_words(field['type']))}"
        for field in fields
        if (condition := unreadable(f"{within}{quoted(field['name'])}", field["type"]))
    ]
    return f"CASE {' '.join(cases)} END" if cases else "cast(null as string)"


def why_refused(table: Table, schema: str) -> str:
    """An SQL expression for why a table cannot store a row with this schema; null if it can."""
    fields = fields_of(schema, table.name)
    missing = [
        f"WHEN {quoted(name)} IS NULL THEN {literal(f'key column {name} is null')}" for name in table.key
    ]
    cases = f"CASE {' '.join(missing)} END" if missing else "null"
    return f"coalesce({cases}, {why_unreadable(fields)})"


def guarded(fields: Sequence[Field], cases: Mapping[str, str] | None = None) -> list[str]:
    """The columns as expressions that fail the query at an unreadable value.

    `cases` are additional branches, `WHEN … THEN …`, by column.
    """
    return [_guarded(field, (cases or {}).get(str(field["name"]), "")) for field in fields]


def refusal(table: str, text: str) -> TableError | None:
    """The error of a query that failed at a guarded column; None if it failed otherwise."""
    found = re.search(rf"{UNREADABLE}=([^\n]+?);;", text)
    if found is None:
        return None
    return InvalidRowsError(
        f"table {table}: {found[1]}",
        hint="fix the transform that produces the value, or filter out its row; readers of the table would fail",
    )


def _guarded(field: Field, cases: str) -> str:
    name, kind = str(field["name"]), field["type"]
    condition = unreadable(quoted(name), kind)
    if condition is None:
        return quoted(name)
    shown = _SHOWN.get(kind) if isinstance(kind, str) else None
    value = f"concat(': ', {shown.format(quoted(name))}, ';;')" if shown else "';;'"
    # Cast to the column's type: Spark would optimize away a branch of type null together with its error.
    stop = f"cast(raise_error(concat({literal(f'{UNREADABLE}=column {name} {unreadable_words(kind)}')}, {value})) as {type_name(kind)})"
    return f"CASE WHEN {condition} THEN {stop} {cases} ELSE {quoted(name)} END AS {quoted(name)}"


def unreadable(value: str, kind: Any, depth: int = 0) -> str | None:
    """An SQL condition for unreadable values; None if all values of this type are readable."""
    match kind:
        case "string":
            return f"NOT is_valid_utf8({value})"
        case "date":
            return f"{value} NOT BETWEEN DATE'{_FIRST}' AND DATE'{_LAST}'"
        case "timestamp":
            return f"{value} NOT BETWEEN TIMESTAMP_LTZ'{_FIRST} 00:00:00Z' AND TIMESTAMP_LTZ'{_LAST} 23:59:59.999999Z'"
        case "timestamp_ntz":
            return f"{value} NOT BETWEEN TIMESTAMP_NTZ'{_FIRST} 00:00:00' AND TIMESTAMP_NTZ'{_LAST} 23:59:59.999999'"
        case {"type": "struct", "fields": fields}:
            inner = [unreadable(f"{value}.{quoted(each['name'])}", each["type"], depth) for each in fields]
            return " OR ".join(f"({each})" for each in inner if each) or None
        case {"type": "array", "elementType": element}:
            return _exists(value, element, depth)
        case {"type": "map", "keyType": key, "valueType": of}:
            sides = (_exists(f"map_keys({value})", key, depth), _exists(f"map_values({value})", of, depth))
            return " OR ".join(each for each in sides if each) or None
        case _:
            return None


def _exists(values: str, kind: Any, depth: int) -> str | None:
    each = f"_{depth}"
    condition = unreadable(each, kind, depth + 1)
    return None if condition is None else f"exists({values}, {each} -> {condition})"


def unreadable_words(kind: Any) -> str:
    """A description of unreadable values of a type."""
    return (
        _WORDS.get(kind, "")
        if isinstance(kind, str)
        else "contains text that is not valid UTF-8 or a year beyond 9999"
    )


def literal(text: str) -> str:
    """A text as an SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
