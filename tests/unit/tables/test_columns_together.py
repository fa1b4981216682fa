"""A batch with a wider column and a new one."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from gearshift import tables
from tests.arrow_frames import ArrowFrame, declared


def test_a_column_grows_and_a_time_without_zone_comes_in_one_batch(tmp_path: Path) -> None:
    uri = (tmp_path / "t").as_uri()
    at = datetime(2026, 1, 1)  # noqa: DTZ001
    tables.append(declared("t"), uri, ArrowFrame({"n": "integer"}, [(1,)]), writer="w", batch_id=0)
    both = ArrowFrame({"n": "long", "at": "timestamp_ntz"}, [(2**40, at)])
    tables.append(declared("t"), uri, both, writer="w", batch_id=1)
    found = sorted((row["n"], row["at"]) for row in tables.rows(uri))
    assert found == [(1, None), (2**40, at)]
