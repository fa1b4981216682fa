"""Writes text from records and logs to stdout: without control characters, and quietly if nobody reads it any more."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any


def visible(text: str) -> str:
    r"""The text with control characters escaped, which could change the terminal or hide a part of the line.

    >>> visible("a\x1b[31mb\u202e")
    'a\\x1b[31mb\\u202e'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def json_text(data: Any) -> str:
    r"""JSON on one line, readable in the terminal's encoding, with control characters escaped.

    >>> print(json_text({"name": "Zoë\x9b"}))
    {"name": "Zoë\u009b"}
    """
    written = json.dumps(data, ensure_ascii=not _is_unicode(), allow_nan=False)
    return written if written.isprintable() else _UNPRINTABLE.sub(_escaped, written)


def _is_unicode() -> bool:
    return (sys.stdout.encoding or "utf-8").lower().replace("-", "").startswith("utf")


_UNPRINTABLE = re.compile(r"[^ -~]")


def _escaped(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


@contextmanager
def quiet_end() -> Generator[None]:
    """End without a message on Ctrl-C, on SIGTERM, and when the reader of a pipe is gone, as with `| head -1`."""
    out: object = sys.stdout
    if isinstance(out, TextIOWrapper):  # not in tests, which replace it
        out.reconfigure(errors="backslashreplace")
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        _flush()
    except BrokenPipeError:
        # Python flushes stdout once more when it exits, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        signal.signal(signal.SIGTERM, before)


def require_reader() -> None:
    """Raise BrokenPipeError if stdout is a pipe that nobody reads any more; writing would find out only later."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # not a real file, as in tests
        return
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
        raise BrokenPipeError


def _flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
