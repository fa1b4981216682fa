"""Concurrent commits of many writers, with a frame that writes its files in microseconds so that they conflict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gearshift import tables
from gearshift.definitions import Location, Table
from gearshift.errors import TableError
from tests.arrow_frames import ArrowFrame

TABLE = Table(name="raced", defined_at=Location(__file__, 1))
ROUNDS = 15


def frame(**columns: Sequence[int]) -> ArrowFrame:
    """Integer columns."""
    return ArrowFrame(dict.fromkeys(columns, "long"), zip(*columns.values(), strict=True))


def test_a_batch_that_several_processes_write_is_committed_once(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        uri = (tmp_path / str(number)).as_uri()

        def write(task: tuple[str, int], uri: str = uri) -> tables.Commit:
            writer, start = task
            return tables.append(TABLE, uri, frame(id=range(start, start + 5)), writer=writer, batch_id=0)

        with ThreadPoolExecutor(6) as threads:
            commits = list(threads.map(write, [("a", 0)] * 3 + [("b", 100)] * 3))
        assert [commit.written for commit in commits].count(True) == 2
        assert Counter(row["id"] for row in tables.rows(uri)) == Counter([*range(5), *range(100, 105)])
        assert [change.operation for change in tables.history(uri)].count("CREATE TABLE") == 1
        assert (
            len(list((tmp_path / str(number)).glob("*/*.parquet"))) == 2
        )  # the losing writer removed its file


def test_overwrites_that_race_leave_the_rows_of_one(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        uri = (tmp_path / str(number)).as_uri()
        if number % 2:
            tables.overwrite(TABLE, uri, frame(id=[]))
        with ThreadPoolExecutor(4) as threads:
            frames = [frame(id=range(start, start + 5)) for start in (0, 100, 200, 300)]
            list(threads.map(lambda frame, uri=uri: tables.overwrite(TABLE, uri, frame), frames))
        ids = sorted(row["id"] for row in tables.rows(uri))
        assert ids in [list(range(start, start + 5)) for start in (0, 100, 200, 300)]


def test_of_racing_writers_with_different_new_columns_one_wins_and_the_others_get_an_error(
    tmp_path: Path,
) -> None:
    def write(uri: str, writer: int) -> str:
        try:
            rows = frame(id=[writer], **{f"c{writer}": [1]})
            tables.append(TABLE, uri, rows, writer=str(writer), batch_id=0)
        except TableError as error:
            return str(error)
        return "written"

    for number in range(ROUNDS):
        uri = (tmp_path / str(number)).as_uri()
        tables.append(TABLE, uri, frame(id=[0]), writer="first", batch_id=0)
        with ThreadPoolExecutor(4) as threads:
            outcomes = list(threads.map(write, [uri] * 4, range(1, 5)))
        assert outcomes.count("written") == 1
        assert sum("is missing in the rows" in outcome for outcome in outcomes) == 3
        assert len(tables.rows(uri)) == 2
