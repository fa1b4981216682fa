"""The return annotation of a handler, to check a table against it before the first record."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from gearshift.destinations.rows import Delete
from gearshift.record import Change


@dataclass(frozen=True, slots=True)
class Returns:
    """The columns of the rows (None if unknown), and whether the rows are changes of a captured table."""

    columns: tuple[str, ...] | None
    changes: bool


def returns_of(handler: Callable[..., Any], *, captured: bool) -> Returns:
    """Read a return annotation: a dataclass or a Change of one, optional or in a list.

    Without an annotation the rows may be the handler's input: changes, if the topic is of a `captured` table.

    >>> @dataclass
    ... class Meter:
    ...     meter_id: str
    ...     load_kw: float
    >>> def keep(record: Any) -> list[Meter | None]: ...
    >>> returns_of(keep, captured=False)
    Returns(columns=('meter_id', 'load_kw'), changes=False)
    >>> returns_of(lambda record: record.value, captured=False)
    Returns(columns=None, changes=False)
    """
    try:
        found = _rows(typing.get_type_hints(handler).get("return"))
    except (NameError, TypeError, AttributeError):  # a name imported for type checking only
        found = set[Any]()
    if len(found) != 1:
        return Returns(None, captured)
    kind: Any = next(iter(found))
    changes = Change in (kind, typing.get_origin(kind))
    if changes:
        kind = next(iter(typing.get_args(kind)), None)
    if isinstance(kind, type) and is_dataclass(kind):
        return Returns(tuple(field.name for field in fields(kind)), changes)
    return Returns(None, changes or captured)


def _rows(annotated: Any) -> set[Any]:
    """The types in an annotation other than None and Delete."""
    origin = typing.get_origin(annotated)
    if origin in (typing.Union, types.UnionType) or (
        isinstance(origin, type) and issubclass(origin, list | tuple)
    ):
        parts = (each for each in typing.get_args(annotated) if each is not Ellipsis)
        return set[Any]().union(*map(_rows, parts))
    return set() if annotated in (None, type(None), Delete) else {annotated}
