"""What all commands share: settings, logging, and printing of errors and data."""

from __future__ import annotations

import json
import logging
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gearshift.errors import DefinitionError, GearshiftError, SettingsError
from gearshift.log_lines import JsonLines
from gearshift.redaction import RedactingFormatter, cover_tracebacks

if TYPE_CHECKING:
    from gearshift.settings import Settings

_chosen: dict[str, str] = {}


class Output(StrEnum):
    """The output format of a command."""

    TEXT = "text"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="Output format: text or json.")]


def use_profile(name: str | None) -> None:
    """Use the profile given before the command."""
    if name is not None:
        _chosen["profile"] = name


def read_settings(**flags: Any) -> Settings:
    """The settings of this command."""
    from gearshift import settings
    from gearshift.storage.shared_files import require_folder

    found = settings.load({**_chosen, **flags})
    require_folder(found.home)
    return found


def print_json(data: Any) -> None:
    """Print data as JSON to stdout."""
    sys.stdout.write(json.dumps(data, indent=2) + "\n")


def say(message: str) -> None:
    """Print a message to stderr; stdout is for data."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


def agreed(yes: bool, question: str) -> bool:
    """Whether to go on: with --yes, or if a person at a terminal agrees; otherwise it was a dry run."""
    if yes:
        return True
    if sys.stdin.isatty() and sys.stderr.isatty():
        return typer.confirm(question, err=True)
    say("dry run; add --yes to apply")
    return False


def explain(error: GearshiftError) -> int:
    """Print an error and, on the next line, its hint; return the exit code."""
    say(f"error: {error.summary}")
    if error.hint:
        say(f"hint: {error.hint}")
    return 2 if isinstance(error, SettingsError | DefinitionError) else 1


class _CurrentStderr(logging.Handler):
    """Writes to the current sys.stderr, which `run` replaces to print lines above its live table."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


def set_up_logging(log_format: str, level: int) -> None:
    """Log to stderr, one line per event."""
    handler = _CurrentStderr()
    plain = RedactingFormatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")
    handler.setFormatter(JsonLines() if log_format == "json" else plain)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    cover_tracebacks()
    for noisy in ("py4j", "httpx", "httpx2", "urllib3"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
