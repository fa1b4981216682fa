"""Logs as lines of JSON, and log files that do not grow without end."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from pathlib import Path

from gearshift.redaction import redact

MOST_BYTES = 16 << 20
"""Of a log file; the one before it is kept as `.1`."""


class JsonLines(logging.Formatter):
    """A log formatter that writes one JSON object per event."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record and redact it."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        if record.exc_info:
            entry["exception"] = redact(self.formatException(record.exc_info))
        return json.dumps(entry)


def in_json() -> bool:
    """Whether this process logs in JSON."""
    return any(isinstance(handler.formatter, JsonLines) for handler in logging.getLogger().handlers)


def rotate(file: Path, *descriptors: int, most_bytes: int = MOST_BYTES) -> None:
    """Begin a new file if the log to which these descriptors write is large, whoever writes through them."""
    if os.fstat(descriptors[0]).st_size < most_bytes:
        return
    file.replace(file.with_name(f"{file.name}.1"))
    fresh = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for descriptor in descriptors:
        os.dup2(fresh, descriptor)
    os.close(fresh)
