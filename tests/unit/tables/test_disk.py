"""Disk errors: a clear message, no partial writes, and a retry that succeeds once there is space."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gearshift import tables
from gearshift.errors import TableError
from gearshift.tables.disk import on_disk
from tests.arrow_frames import ArrowFrame, declared

_WRITE = """
import resource, sys
from gearshift import tables
from gearshift.errors import TableError
from tests.unit.tables.test_disk import batch, written

write, uri = written[sys.argv[1]], sys.argv[2]
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    write(uri, batch(1, 20_000), 1)
except TableError as error:
    print(error)
"""

written: dict[str, Callable[[str, ArrowFrame, int], tables.Commit]] = {
    "append": lambda uri, rows, id_: tables.append(declared("t"), uri, rows, writer="w", batch_id=id_),
    "upsert": lambda uri, rows, id_: tables.upsert(
        declared("t", key=("id",)), uri, rows, writer="w", batch_id=id_
    ),
}


def batch(number: int, rows: int) -> ArrowFrame:
    """Rows that do not compress."""
    columns = {"id": "long", "text": "string"}
    return ArrowFrame(columns, [(number * rows + n, f"{hash((number, n)):x}") for n in range(rows)])


@pytest.mark.parametrize("how", written)
def test_a_batch_that_the_disk_rejects_leaves_nothing_and_can_be_retried(tmp_path: Path, how: str) -> None:
    uri = (tmp_path / "t").as_uri()
    written[how](uri, batch(0, 3), 0)
    before = sorted(path for path in tmp_path.rglob("*.parquet"))
    done = subprocess.run(
        [sys.executable, "-c", _WRITE, how, uri], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.startswith(f"table t at {uri} cannot be written: file too large; raise the limit"), (
        done
    )
    assert len(tables.rows(uri)) == 3
    assert sorted(path for path in tmp_path.rglob("*.parquet")) == before
    written[how](uri, batch(1, 20_000), 1)
    assert len(tables.rows(uri)) == 20_003


def test_a_full_disk_is_distinguished_from_other_failures() -> None:
    with (
        pytest.raises(
            TableError,
            match="table t at file:///w/t cannot be written: no space left on device; free disk space",
        ),
        on_disk("file:///w/t"),
    ):
        raise RuntimeError("java.io.IOException: No space left on device\n at page after page")
    with pytest.raises(RuntimeError, match="else"), on_disk("file:///w/t"):
        raise RuntimeError("something else")
