"""Runs a query of a page in a process of its own: neither its memory nor its time is then the app's.

DuckDB's own limit does not count text that a function builds, so the process has one from the operating system as well.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

from gearshift import tables
from gearshift.console.problems import describe, restore
from gearshift.errors import GearshiftError, TableError
from gearshift.storage.access import Access, access_to, register

_TIME = timedelta(seconds=30)
_STARTS_WITHIN = timedelta(seconds=20)
_MEMORY = 768 << 20
"""Bytes beyond those that its libraries take."""
_HINT = "select fewer rows, or use gearshift table sql, which has no limits"


def answer(warehouse_uri: str, query: str, limit: int) -> dict[str, Any]:
    """The columns, types and at most so many rows of a query, as plain data."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=json.dumps([warehouse_uri, query, limit, asdict(access_to(warehouse_uri))]),
            capture_output=True,
            text=True,
            timeout=(_TIME + _STARTS_WITHIN).total_seconds(),
            start_new_session=True,  # so that Ctrl-C does not reach it
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TableError(f"the query did not end within {_TIME.total_seconds():g} s", hint=_HINT) from None
    if done.returncode != 0:
        raise TableError("the query needs more memory than it may use", hint=_HINT)
    found: dict[str, Any] = json.loads(done.stdout)
    if "error" in found:
        raise restore(found["error"])
    return found


def _limit_memory() -> None:
    # Of written memory: the libraries reserve much more address space than they use.
    used = int(Path("/proc/self/statm").read_text("ascii").split()[5]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_DATA, (used + _MEMORY, used + _MEMORY))


def _run(warehouse_uri: str, query: str, limit: int, access: dict[str, Any]) -> dict[str, Any]:
    began = monotonic()
    register([warehouse_uri], Access(**access))  # through the input, since it has keys
    try:
        found = tables.sql(warehouse_uri, query, limits=tables.Limits(rows=limit, time=_TIME))
        return {
            "columns": list(found.columns),
            "types": list(found.types),
            "rows": tables.as_json(found.rows),
            "truncated": found.truncated,
            "seconds": round(monotonic() - began, 3),
        }
    except GearshiftError as error:
        return {"error": describe(error)}


if __name__ == "__main__":
    wanted = json.load(sys.stdin)
    _limit_memory()
    try:
        text = json.dumps(_run(*wanted))
    except (RecursionError, ValueError):  # nested too deeply, or a number of thousands of digits
        refused = TableError("the result has a value that JSON cannot express", hint="cast it to text")
        text = json.dumps({"error": describe(refused)})
    sys.stdout.write(text)
