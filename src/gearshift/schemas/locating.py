"""Where a class and its fields are written, for errors about them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from gearshift.definitions import Location
from gearshift.errors import SchemaError


@contextmanager
def located(owner: type[Any], field: str | None = None) -> Generator[None]:
    """Add the file and the line of a class or of its field to a SchemaError that has none."""
    try:
        yield
    except SchemaError as error:
        where = None if error.file is not None else _location(owner, field)
        if where is None:
            raise
        raise SchemaError(error.what, hint=error.hint, file=where.file, line=where.line) from None


def _location(owner: type[Any], field: str | None) -> Location | None:
    """None for a class that has no file, such as one of an interactive session."""
    try:
        file = inspect.getsourcefile(owner)
        lines, first = inspect.getsourcelines(owner)
    except (OSError, TypeError):
        return None
    if file is None:
        return None
    wanted = re.compile(rf"\s*{field}\s*:" if field else r"\s*class\b")
    offset = next((number for number, line in enumerate(lines) if wanted.match(line)), 0)
    return Location.at(file, first + offset)
