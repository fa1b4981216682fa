"""What every verb shares: settings, logging, and how errors and data are printed."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gearshift.errors import DefinitionError, GearshiftError, SettingsError
from gearshift.redaction import RedactingFormatter, cover_tracebacks, redact

if TYPE_CHECKING:
    from gearshift.settings import Settings

_chosen: dict[str, str] = {}


class Output(StrEnum):
    """How a command prints what it found."""

    TEXT = "text"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="text or json")]


def use_profile(name: str | None) -> None:
    """Remember the profile named before the verb."""
    if name is not None:
        _chosen["profile"] = name


def read_settings(**flags: Any) -> Settings:
    """The settings of this command."""
    from gearshift import settings
    from gearshift.stack.files import require_folder

    found = settings.load({**_chosen, **flags})
    require_folder(found.home)
    return found


def print_json(data: Any) -> None:
    """Data on stdout, as JSON."""
    sys.stdout.write(json.dumps(data, indent=2) + "\n")


def say(words: str) -> None:
    """What goes on, on stderr: stdout is for data."""
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


def explain(error: GearshiftError) -> int:
    """Print an error: what and where on the first line, what to do on the next; the exit code."""
    where = f" ({error.where})" if error.where else ""
    say(f"error: {error.what}{where}")
    if error.hint:
        say(f"  try: {error.hint}")
    return 2 if isinstance(error, SettingsError | DefinitionError) else 1


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        if record.exc_info:
            entry["exception"] = redact(self.formatException(record.exc_info))
        return json.dumps(entry)


class _CurrentStderr(logging.Handler):
    """Writes to what stderr is at the moment: while `run` draws its table, lines go above it."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


def set_up_logging(log_format: str, level: int) -> None:
    """Logs go to stderr, one line an event."""
    handler = _CurrentStderr()
    plain = RedactingFormatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")
    handler.setFormatter(_JsonLines() if log_format == "json" else plain)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    cover_tracebacks()
    for noisy in ("py4j", "httpx", "httpx2", "urllib3"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
