"""Files with a column for each sensor, such as Melbourne's monthly ones and Dublin's: a row has the counts of all."""

from __future__ import annotations

import re
from collections.abc import Collection

from files import Head

_DIRECTION = re.compile(r"(.+?)\W+(in|out)\W*", re.IGNORECASE)
ROW_NUMBERS = ("id", "objectid", "row", "index", "")


def sensors_of(head: Head, others: Collection[int]) -> dict[str, dict[str, int]]:
    """The columns of each sensor: of its count, or of its counts in and out; `others` are no sensor's.

    A total is left out next to what it is the total of.

    >>> head = Head(1, ["Time", "Quay", "Quay IN", "Quay OUT", "Bridge", "Bridges Total"], ",")
    >>> sensors_of(head, [0])
    {'Quay': {'in': 2, 'out': 3}, 'Bridge': {'count': 4}}
    """
    found: dict[str, dict[str, int]] = {}
    for column, cell in enumerate(head.cells):
        if column in others or head.names[column] in ROW_NUMBERS:
            continue
        directed = _DIRECTION.fullmatch(cell)
        sensor, role = (directed[1], directed[2].lower()) if directed else (cell, "count")
        found.setdefault(sensor, {})[role] = column
    for columns in found.values():
        if len(columns) > 1:
            columns.pop("count", None)
    parts = {sensor: columns for sensor, columns in found.items() if not sensor.lower().endswith("total")}
    return parts or found
