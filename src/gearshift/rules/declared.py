"""What every declaration is held to: a name, and a place in the user's file."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any, ParamSpec

from gearshift.definitions import Location
from gearshift.errors import DefinitionError
from gearshift.freshness import Freshness

P = ParamSpec("P")


def names(columns: str | tuple[str, ...]) -> tuple[str, ...]:
    """One column or several, as a tuple."""
    return (columns,) if isinstance(columns, str) else tuple(columns)


def require_name(name: str, kind: str, where: Location, limit: int = 249) -> None:
    """Refuse a name that Kafka or a folder would not take."""
    if not re.fullmatch(r"[a-zA-Z0-9._-]+", name) or name in (".", "..") or len(name) > limit:
        raise wrong(
            f"{name!r} is no {kind} name", f"use letters, digits, '.', '_' and '-', at most {limit}", where
        )


def wrong(what: str, hint: str, where: Location) -> DefinitionError:
    """The error of a declaration, with its place."""
    return DefinitionError(what, hint=hint, file=where.file, line=where.line)


def duration(text: str, who: str, where: Location) -> timedelta:
    """How long `5 minutes` is."""
    try:
        return Freshness.parse(text).duration
    except DefinitionError as error:
        raise wrong(f"{who}: {error.what}", error.hint or "", where) from None


def caller() -> Location:
    """Where the user called the method that calls this."""
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]  (inspect.stack reads every source file)
    return Location.at(frame.f_code.co_filename, frame.f_lineno)


def located(init: Callable[P, None]) -> Callable[P, None]:
    """A constructor whose refusals name the line of the user's file that called it."""

    @wraps(init)
    def declared(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            init(*args, **kwargs)
        except DefinitionError as error:
            if error.file is None:
                where = caller()
                error.file, error.line = where.file, where.line
            raise

    return declared


def location_of(function: Callable[..., Any], called_at: Location) -> Location:
    """Where a function begins that was handed to a decorator."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or not hasattr(function, "__name__"):
        raise wrong(f"{function!r} is no function", "decorate a function written with def", called_at)
    return Location.at(code.co_filename, code.co_firstlineno)
