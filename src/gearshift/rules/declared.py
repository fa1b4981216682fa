"""Rules that every declaration shares: its name, its durations and its location."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import wraps
from typing import Any, ParamSpec, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gearshift.definitions import Location
from gearshift.errors import DefinitionError
from gearshift.freshness import Freshness

P = ParamSpec("P")

LONGEST_TOPIC = 249 - len(".dlq")
"""Kafka's limit for the name of a topic, with room for the topic of its dead letters."""


class Declared(Protocol):
    """A definition that knows where it was declared."""

    @property
    def defined_at(self) -> Location: ...


def invalid(what: str, hint: str, where: Location) -> DefinitionError:
    """The error for an invalid declaration."""
    return DefinitionError(what, hint=hint, file=where.file, line=where.line)


def columns(names: str | tuple[str, ...]) -> tuple[str, ...]:
    """One column or several, as a tuple."""
    return (names,) if isinstance(names, str) else tuple(names)


def require_name(name: str, kind: str, where: Location, limit: int = 249) -> None:
    """Require a name that both Kafka and a file system accept."""
    if not re.fullmatch(r"[a-zA-Z0-9._-]+", name) or name in (".", "..") or len(name) > limit:
        raise invalid(
            f"invalid {kind} name {name!r}",
            f"use letters, digits, '.', '_' and '-', at most {limit} characters",
            where,
        )


def require_timezone(name: str, where: Location) -> None:
    """Require the name of a time zone."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise invalid(f"unknown time zone {name!r}", "use a name such as Europe/Berlin", where) from None


def require_new(name: str, kind: str, known: Mapping[str, Declared], where: Location) -> None:
    """Require a name that is not declared yet."""
    if name in known:
        raise invalid(
            f"{kind} {name} is declared twice",
            f"rename one of them; the first is at {known[name].defined_at}",
            where,
        )


def duration(text: str, owner: str, where: Location) -> timedelta:
    """The duration that a text such as `5 minutes` describes."""
    try:
        return Freshness.parse(text).duration
    except DefinitionError as error:
        raise invalid(f"{owner}: {error.what}", error.hint or "", where) from None


def caller() -> Location:
    """The line that called the method which calls this."""
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]  (inspect.stack reads every source file)
    return Location.at(frame.f_code.co_filename, frame.f_lineno)


def located(init: Callable[P, None]) -> Callable[P, None]:
    """Make a constructor report its definition errors at the line that called it."""

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
    """The line where a decorated function begins."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or not hasattr(function, "__name__"):
        raise invalid(f"{function!r} is not a function", "decorate a function written with def", called_at)
    return Location.at(code.co_filename, code.co_firstlineno)
