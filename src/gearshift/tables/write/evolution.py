"""Schema evolution: how the columns of new rows may differ from those of their table. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from gearshift.definitions import OnSchemaChange
from gearshift.errors import TableError
from gearshift.tables.columns import Field, quoted, type_name

_Relation = Literal["same", "grows", "wider", "narrower", "other"]

# Each type can represent all values of the types before it.
_LADDERS = (("byte", "short", "integer", "long"), ("float", "double"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The changes of a table's columns, or of the rows, that are needed before writing."""

    added: tuple[Field, ...] = ()
    """New columns, and struct columns with new fields."""
    widened: tuple[Field, ...] = ()
    """Columns of the table that need a wider type."""
    narrower: tuple[Field, ...] = ()
    """Columns of the table to whose type the rows must be cast."""

    @property
    def changes_table(self) -> bool:
        """Whether the table must change."""
        return bool(self.added or self.widened)

    def cast(self, incoming: Sequence[Field]) -> list[str]:
        """SQL expressions that cast the rows' columns to the table's types.

        >>> Fit(narrower=({"name": "n", "type": "long"},)).cast([{"name": "n", "type": "integer"}])
        ['cast(`n` as bigint) as `n`']
        """
        wanted = {field["name"]: type_name(field["type"]) for field in self.narrower}
        return [
            f"cast({quoted(name)} as {wanted[name]}) as {quoted(name)}" if name in wanted else quoted(name)
            for name in (field["name"] for field in incoming)
        ]

    def applied(self, existing: Sequence[Field]) -> list[Field]:
        """The table's columns after the change."""
        changed = {field["name"]: field for field in (*self.widened, *self.added)}
        known = {field["name"] for field in existing}
        return [changed.get(field["name"], field) for field in existing] + [
            field for field in self.added if field["name"] not in known
        ]


def fit(
    existing: Sequence[Field],
    incoming: Sequence[Field],
    table: str,
    rule: OnSchemaChange = "append_new_columns",
) -> Fit:
    """The changes that rows need to be written to a table; TableError if they are incompatible.

    >>> old, new = {"name": "n", "type": "integer"}, {"name": "m", "type": "string"}
    >>> fit([old], [{"name": "n", "type": "long"}, new], "bills")
    Fit(added=({'name': 'm', 'type': 'string'},), widened=({'name': 'n', 'type': 'long'},), narrower=())
    """
    known = {str(field["name"]).lower(): field for field in existing}
    brought = {str(field["name"]).lower(): field for field in incoming}
    added: list[Field] = []
    widened: list[Field] = []
    narrower: list[Field] = []
    for key, field in known.items():
        name, has = field["name"], type_name(field["type"])
        if key not in brought:
            raise TableError(
                f"table {table}: column {name} ({has}) is missing in the rows",
                hint=f"add it, for example as cast(null as {has}), or write to a new table",
            )
        if brought[key]["name"] != name:
            raise TableError(
                f"table {table}: column {name} is called {brought[key]['name']} in the rows",
                hint=f"rename it to {name}: column names must differ in more than case",
            )
        match relation(field["type"], brought[key]["type"]):
            case "same":
                continue
            case "grows":
                added.append({**field, "type": grown(field["type"], brought[key]["type"])})
            case "wider":
                widened.append(brought[key])
            case "narrower":
                narrower.append(field)
            case "other":
                # A cast matches the fields of a struct by position: it could swap two of them.
                fix = f"use the fields of {has}" if "struct<" in has else f"cast it to {has}"
                raise TableError(
                    f"table {table}: column {name} is {has}, but {type_name(brought[key]['type'])} in the rows",
                    hint=f"{fix}, add a new column for the new values, or write to a new table",
                )
    added += [field for key, field in brought.items() if key not in known]
    if rule == "fail" and (added or widened):
        first = (added + widened)[0]
        raise TableError(
            f"table {table} is strict, but the rows have column {first['name']} as {type_name(first['type'])}",
            hint='select only columns of the table, or declare it with on_schema_change="append_new_columns"',
        )
    return Fit(added=tuple(added), widened=tuple(widened), narrower=tuple(narrower))


def relation(has: Any, gets: Any) -> _Relation:
    """How an incoming type relates to an existing type.

    >>> relation("integer", "long"), relation("long", "integer"), relation("long", "double")
    ('wider', 'narrower', 'other')
    >>> relation("decimal(10,2)", "decimal(12,2)"), relation("decimal(10,2)", "decimal(10,4)")
    ('wider', 'other')
    """
    if type_name(has) == type_name(gets):
        return "same"
    if isinstance(has, str) or isinstance(gets, str):
        if not (isinstance(has, str) and isinstance(gets, str)):
            return "other"
        return "wider" if _holds(gets, has) else "narrower" if _holds(has, gets) else "other"
    return "grows" if _grows(has, gets) else "other"


def grown(has: Any, gets: Any) -> Any:
    """A nested type with its existing fields, then the new ones of the incoming type."""
    if isinstance(has, str):
        return has
    if has["type"] == "array":
        return {**has, "elementType": grown(has["elementType"], gets["elementType"])}
    if has["type"] == "map":
        return {**has, "valueType": grown(has["valueType"], gets["valueType"])}
    known, brought = _by_name(has), _by_name(gets)
    old = [{**field, "type": grown(field["type"], brought[name]["type"])} for name, field in known.items()]
    return {**has, "fields": old + [field for name, field in brought.items() if name not in known]}


def _grows(has: Any, gets: Any) -> bool:
    if type_name(has) == type_name(gets):
        return True
    if isinstance(has, str) or isinstance(gets, str) or has["type"] != gets["type"]:
        return False
    if has["type"] == "array":
        return _grows(has["elementType"], gets["elementType"])
    if has["type"] == "map":
        return type_name(has["keyType"]) == type_name(gets["keyType"]) and _grows(
            has["valueType"], gets["valueType"]
        )
    known, brought = _by_name(has), _by_name(gets)
    new = [name for name in brought if name not in known]
    if [name for name in brought if name in known] != list(known):
        return False  # a field is missing, or in another position
    if {name.lower() for name in new} & {name.lower() for name in known}:
        return False
    return all(_grows(field["type"], brought[name]["type"]) for name, field in known.items())


def _by_name(struct: Any) -> dict[str, Field]:
    return {str(field["name"]): field for field in cast("list[Field]", struct["fields"])}


def _holds(wide: str, narrow: str) -> bool:
    for ladder in _LADDERS:
        if wide in ladder and narrow in ladder:
            return ladder.index(wide) > ladder.index(narrow)
    digits = [re.fullmatch(r"decimal\((\d+),(\d+)\)", kind.replace(" ", "")) for kind in (wide, narrow)]
    if not all(digits):
        return False
    (precision, scale), (of_precision, of_scale) = (
        (int(match[1]), int(match[2])) for match in digits if match
    )
    return scale >= of_scale and precision - scale >= of_precision - of_scale
