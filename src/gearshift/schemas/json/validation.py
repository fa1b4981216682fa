"""Checks a JSON value against a registered JSON Schema before it is sent. Pure."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from gearshift.schemas.avro.from_json import unknown_field
from gearshift.schemas.encoding import Misfit, fixed, is_a
from gearshift.schemas.json.differences import ALIASES, DECIMAL
from gearshift.schemas.json.documents import Document, View
from gearshift.schemas.shapes import DecimalOf

# What this module checks, and what changes no verdict. Anything else could make an invalid value pass.
_CHECKED = {
    "type",
    "enum",
    "const",
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "minProperties",
    "maxProperties",
    "items",
    "prefixItems",
    "additionalItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "contentEncoding",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    DECIMAL,
}
_IGNORED = {ALIASES, "contentMediaType"}
_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "null": (lambda datum: datum is None, "null"),
    "boolean": (lambda datum: isinstance(datum, bool), "a boolean"),
    "integer": (
        lambda datum: _is_number(datum) and math.isfinite(datum) and datum == math.floor(datum),
        "an integer",
    ),
    "number": (lambda datum: _is_number(datum), "a number"),
    "string": (lambda datum: isinstance(datum, str), "a string"),
    "array": (lambda datum: isinstance(datum, list), "a list"),
    "object": (lambda datum: isinstance(datum, dict), "an object"),
}
_MOMENT = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)


def validate(datum: Any, schema: Any) -> None:
    """Raise Misfit, with the field, unless a value is valid by a schema.

    A schema with a keyword that is not checked here raises it for every value.

    >>> validate({"load_kw": "2"}, {"type": "object", "properties": {"load_kw": {"type": "number"}}})
    Traceback (most recent call last):
    gearshift.schemas.encoding.Misfit: field load_kw: is str, not a number
    """
    _check(datum, Document(schema).view)


def _check(datum: Any, view: View) -> None:
    schema = view.schema
    if view.nothing and schema.get("not") in ({}, True):
        raise Misfit("is not allowed")
    for keyword in schema:
        if keyword not in _CHECKED | _IGNORED:
            raise Misfit(f"the schema has {keyword}, which cannot be checked here")
    _check_type(datum, schema)
    if "enum" in schema and not any(_same(datum, each) for each in schema["enum"]):
        raise Misfit(f"{datum!r} is not one of {', '.join(map(str, schema['enum']))}")
    if "const" in schema and not _same(datum, schema["const"]):
        raise Misfit(f"is not {schema['const']!r}")
    if isinstance(datum, str):
        _check_text(datum, schema)
    elif isinstance(datum, dict):
        _check_object(cast("dict[str, Any]", datum), view)
    elif isinstance(datum, list):
        _check_list(cast("list[Any]", datum), view)
    elif _is_number(datum):
        _check_number(datum, schema)
    _check_combined(datum, view)


def _check_type(datum: Any, schema: dict[str, Any]) -> None:
    declared = schema.get("type")
    if declared is None:
        return
    types: list[str] = [declared] if isinstance(declared, str) else declared
    if not any(_TYPES[each][0](datum) for each in types if each in _TYPES):
        raise is_a(datum, " or ".join(_TYPES[each][1] for each in types if each in _TYPES))


def _check_combined(datum: Any, view: View) -> None:
    schema = view.schema
    for part in schema.get("allOf", ()):
        _check(datum, view.at(part))
    if "anyOf" in schema:
        found = [_misfit(datum, view.at(part)) for part in schema["anyOf"]]
        if None not in found:
            raise _closest(found)
    if "oneOf" in schema:
        found = [_misfit(datum, view.at(part)) for part in schema["oneOf"]]
        if found.count(None) > 1:
            raise Misfit(f"fits {found.count(None)} of the alternatives, of which only one may fit")
        if None not in found:
            raise _closest(found)
    if "not" in schema and schema["not"] not in ({}, True) and _misfit(datum, view.at(schema["not"])) is None:
        raise Misfit("is not allowed")


def _misfit(datum: Any, view: View) -> Misfit | None:
    try:
        _check(datum, view)
    except Misfit as misfit:
        return misfit
    return None


def _closest(found: list[Misfit | None]) -> Misfit:
    """The misfit that is deepest in the value: of an optional object it names the field, not that it is no null."""
    misfits = [misfit for misfit in found if misfit is not None]
    return max(reversed(misfits), key=lambda misfit: len(misfit.path), default=Misfit("is not allowed"))


def _check_object(datum: dict[str, Any], view: View) -> None:
    schema = view.schema
    for name in schema.get("required", ()) if isinstance(schema.get("required"), list) else ():
        if name not in datum:
            raise Misfit("is missing", (name,))
    properties: dict[str, Any] = schema.get("properties", {})
    known = [name for name, part in properties.items() if not _is_retired(part)]
    for name, each in datum.items():
        part = view.named(name)
        if name not in properties and part.nothing:
            raise unknown_field(_title(view.part), name, known)
        try:
            _check(each, part)
        except Misfit as misfit:
            raise misfit.inside(name) from None
    _check_size(len(datum), schema, "Properties", "fields")


def _title(part: Any) -> str:
    title = cast("dict[str, Any]", part).get("title") if isinstance(part, dict) else None
    return str(title or "the schema")


def _is_retired(part: Any) -> bool:
    return isinstance(part, dict) and cast("dict[str, Any]", part).get("deprecated") is True


def _check_list(datum: list[Any], view: View) -> None:
    schema, prefix = view.schema, view.prefix
    for index, each in enumerate(datum):
        part = view.at(prefix[index]) if index < len(prefix) else view.rest
        try:
            _check(each, part)
        except Misfit as misfit:
            raise misfit.inside(f"[{index}]") from None
    _check_size(len(datum), schema, "Items", "items")
    if schema.get("uniqueItems") is True and any(
        _same(each, other) for index, each in enumerate(datum) for other in datum[:index]
    ):
        raise Misfit("has an item twice")


def _check_size(size: int, schema: dict[str, Any], what: str, word: str) -> None:
    if size < schema.get(f"min{what}", 0):
        raise Misfit(f"has {size} {word}, fewer than {schema[f'min{what}']}")
    if size > schema.get(f"max{what}", size):
        raise Misfit(f"has {size} {word}, more than {schema[f'max{what}']}")


def _check_text(datum: str, schema: dict[str, Any]) -> None:
    _check_size(len(datum), schema, "Length", "characters")
    if "pattern" in schema:
        try:
            fits = re.search(schema["pattern"], datum)
        except re.error:
            raise Misfit(
                f"the schema has the pattern {schema['pattern']!r}, which cannot be checked here"
            ) from None
        if fits is None:
            raise Misfit(f"does not match {schema['pattern']!r}")
    if schema.get("format") == "date-time":
        _require(_is_moment(datum), "is not an RFC 3339 time with a zone, such as 2026-01-31T12:00:00Z")
    if schema.get("format") == "date":
        _require(_is_day(datum), "is not a date such as 2026-01-31")
    if schema.get("contentEncoding") == "base64":
        _require(_is_base64(datum), "is not base64")
    if DECIMAL in schema:
        try:
            fixed(DecimalOf(*schema[DECIMAL]))(Decimal(datum))
        except InvalidOperation:
            raise Misfit("is not a decimal number") from None


def _check_number(datum: float, schema: dict[str, Any]) -> None:
    low, high = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    # In draft 4 they are booleans that change the meaning of minimum and maximum.
    if "minimum" in schema and (datum < schema["minimum"] or (low is True and datum == schema["minimum"])):
        raise Misfit(f"is below {schema['minimum']}")
    if "maximum" in schema and (datum > schema["maximum"] or (high is True and datum == schema["maximum"])):
        raise Misfit(f"is above {schema['maximum']}")
    if _is_number(low) and datum <= cast("float", low):
        raise Misfit(f"is not above {low}")
    if _is_number(high) and datum >= cast("float", high):
        raise Misfit(f"is not below {high}")
    if "multipleOf" in schema and Decimal(str(datum)) % Decimal(str(schema["multipleOf"])):
        raise Misfit(f"is not a multiple of {schema['multipleOf']}")


def _require(fits: bool, what: str) -> None:
    if not fits:
        raise Misfit(what)


def _is_number(datum: Any) -> bool:
    return isinstance(datum, int | float) and not isinstance(datum, bool)


def _is_moment(datum: str) -> bool:
    if not _MOMENT.fullmatch(datum):
        return False
    return _is_day(datum[:10])


def _is_day(datum: str) -> bool:
    try:
        return date.fromisoformat(datum).isoformat() == datum
    except ValueError:
        return False


def _is_base64(datum: str) -> bool:
    try:
        base64.b64decode(datum, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; true is not 1.

    >>> _same(1, 1.0), _same(1, True), _same([0], [False])
    (True, False, False)
    """
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        ones, others = cast("list[Any]", one), cast("list[Any]", other)
        return len(ones) == len(others) and all(map(_same, ones, others))
    if isinstance(one, dict) and isinstance(other, dict):
        named, named_too = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return named.keys() == named_too.keys() and all(
            _same(each, named_too[key]) for key, each in named.items()
        )
    return one == other
