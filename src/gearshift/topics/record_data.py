"""Records as plain data, in the form that `gearshift topic produce --records` takes."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gearshift.schemas.printing import Printer, Shown
    from gearshift.topics.reader import ConsumedRecord


def record_data(record: ConsumedRecord, printer: Printer) -> dict[str, Any]:
    """A record as plain data, its key and value decoded by the schemas that they were written with."""
    key = None if record.key is None else printer.show_key(record.key)
    value = None if record.value is None else printer.show(record.value)
    found: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": _moment(record),
        "key": key and key.datum,
        "value": value and value.datum,
        "headers": [header_data(name, content) for name, content in record.headers],
        "schema_id": value and value.schema_id,
        "format": value and value.how,
        "key_schema_id": key and key.schema_id,
        "key_format": key and key.how,
    }
    if value is not None and value.error is not None:
        found["error"] = value.error
    return found


def header_data(name: str, content: bytes | None) -> dict[str, Any]:
    """A header; its bytes are text if possible, otherwise base64 under another name.

    >>> header_data("trace", b"7"), header_data("sum", bytes([255]))
    ({'name': 'trace', 'value': '7'}, {'name': 'sum', 'base64': '/w=='})
    """
    if content is None:
        return {"name": name, "value": None}
    try:
        return {"name": name, "value": content.decode("utf-8")}
    except UnicodeDecodeError:
        return {"name": name, "base64": base64.b64encode(content).decode("ascii")}


def has_key(key: str, printer: Printer, written: Callable[[Shown], str]) -> Callable[[ConsumedRecord], bool]:
    """Whether a record has this key: its bytes, its decoded text, or as `written` shows it."""
    exact = key.encode("utf-8", "surrogateescape")

    def fits(record: ConsumedRecord) -> bool:
        if record.key is None or record.key == exact:
            return record.key is not None
        shown = printer.show_key(record.key)
        return key in (written(shown), shown.datum)

    return fits


def _moment(record: ConsumedRecord) -> str | None:
    if record.timestamp is None:
        return None
    return record.timestamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")
