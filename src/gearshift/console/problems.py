"""Errors on their way through HTTP: as plain data, with the status that fits, and back to their class."""

from __future__ import annotations

from typing import Any

from gearshift import errors
from gearshift.errors import GearshiftError, RunnerError, ShiftError

ATTRIBUTES = ("what", "hint", "app", "pipeline", "delivery", "topic", "partition", "offset", "file", "line")

_NOT_FOUND = (errors.TopicMissingError, errors.TableMissingError, errors.DefinitionError, errors.RunnerError)
_INVALID = (errors.SettingsError, errors.SchemaError, errors.TopicError, errors.TableError)
_IN_THIS_STATE = (
    errors.DeliveryError,
    errors.ShiftError,
    errors.ScaleError,
    errors.CheckError,
    errors.ConnectError,
)


class Refusal(Exception):  # noqa: N818  (a response to a client, not an error of ours)
    """An error with the HTTP status to respond with, where its class alone does not decide."""

    def __init__(self, status: int, error: GearshiftError) -> None:
        super().__init__(error)
        self.status = status
        self.error = error


def status_of(error: GearshiftError) -> int:
    """The HTTP status for an error.

    >>> status_of(errors.TopicMissingError("no")), status_of(errors.BrokerUnreachableError("no"))
    (404, 503)
    """
    if error.retriable:
        return 503
    if isinstance(error, errors.NotAuthorizedError):
        return 403
    for kinds, status in ((_NOT_FOUND, 404), (_INVALID, 400), (_IN_THIS_STATE, 409)):
        if isinstance(error, kinds):
            return status
    return 500


def describe(error: GearshiftError) -> dict[str, Any]:
    """An error as plain data."""
    return {"kind": type(error).__name__, **{name: getattr(error, name) for name in ATTRIBUTES}}


def described(error: Exception, kind: type[GearshiftError] = RunnerError) -> dict[str, Any]:
    """Any exception as plain data; one that is not ours is an internal error of this kind."""
    if isinstance(error, GearshiftError):
        return describe(error)
    return describe(kind(f"internal error: {type(error).__name__}: {error}", hint="see the app's log"))


def restore(given: dict[str, Any]) -> GearshiftError:
    """The error that a runner described, of its original class."""
    rest = dict(given)
    kind: type[GearshiftError] = getattr(errors, rest.pop("kind"), ShiftError)
    return kind(rest.pop("what"), **rest)
