"""Selects records by their key and by a field of their value."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from gearshift.errors import SettingsError
from gearshift.topics.browsing import Wanted, all_records
from gearshift.topics.record_data import has_key

if TYPE_CHECKING:
    from gearshift.schemas.printing import Printer, Shown
    from gearshift.topics.reader import ConsumedRecord


def require_pair(field: str | None, equals: str | None) -> None:
    """Raise SettingsError for a field without its text, or a text without its field."""
    if (field is None) != (equals is None):
        given, lacking = ("field", "equals") if equals is None else ("equals", "field")
        raise SettingsError(f"{given} needs {lacking}", hint="for example field=country&equals=CH")


def record_filter(printer: Printer, key: str | None, field: str | None, equals: str | None) -> Wanted:
    """Whether a record has this key and this text in a field of its value; `all_records` without either."""
    if field is None or equals is None:
        return all_records if key is None else has_key(key, printer, _key_text)
    fits_key = all_records if key is None else has_key(key, printer, _key_text)

    def fits(record: ConsumedRecord) -> bool:
        if record.value is None or not fits_key(record):
            return False
        return any(text_of(each) == equals for each in values_at(printer.show(record.value).datum, field))

    return fits


def values_at(datum: Any, path: str) -> list[Any]:
    """What a dotted path leads to, if anything: a number is an item of a list.

    A name may itself contain dots; of two names with which the path begins, the shorter one is taken.

    >>> values_at({"items": [{"sku.id": 7}]}, "items.0.sku.id"), values_at({}, "items")
    ([7], [])
    """
    while True:
        fields: dict[str, Any] = _named(datum)
        if path in fields:
            return [fields[path]]
        dots = (at for at, character in enumerate(path) if character == "." and path[:at] in fields)
        first = next(dots, None)
        if first is None:
            return []
        datum, path = fields[path[:first]], path[first + 1 :]


def _named(datum: Any) -> dict[str, Any]:
    if isinstance(datum, list):
        return {str(number): item for number, item in enumerate(cast("list[Any]", datum))}
    return cast("dict[str, Any]", datum) if isinstance(datum, dict) else {}


def text_of(value: Any) -> str:
    """The text form of a value.

    >>> [text_of(each) for each in ("CH", 2.5, True, None, {"a": [1]})]
    ['CH', '2.5', 'true', 'null', '{"a":[1]}']
    """
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _key_text(shown: Shown) -> str:
    return text_of(shown.datum)
