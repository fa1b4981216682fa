"""Many writers at once: the commits, with a frame that writes its files in microseconds so that they really race."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gearshift import tables
from gearshift.definitions import Location, Table
from gearshift.errors import TableError

TABLE = Table(name="raced", defined_at=Location(__file__, 1))
ROUNDS = 15


class Settable(dict[str, str]):
    """A session's configuration."""

    def set(self, name: str, value: str) -> None:
        self[name] = value


class Session:
    """A session with a configuration and nothing else."""

    conf = Settable()


class ArrowFrame:
    """Rows that write themselves to Parquet the way a Spark DataFrame is asked to, without Spark."""

    sparkSession = Session()  # noqa: N815

    def __init__(self, **columns: Sequence[int]) -> None:
        self._rows = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})

    @property
    def write(self) -> ArrowFrame:
        return self

    @property
    def schema(self) -> ArrowFrame:
        return self

    def json(self) -> str:
        fields = [
            {"name": n, "type": "long", "nullable": False, "metadata": {}} for n in self._rows.column_names
        ]
        return json.dumps({"type": "struct", "fields": fields})

    def option(self, _name: str, _value: str) -> ArrowFrame:
        return self

    def parquet(self, path: str) -> None:
        folder = Path(path.removeprefix("file:"))
        folder.mkdir(parents=True)
        pq.write_table(self._rows, folder / "part-0.parquet")


def test_a_batch_that_several_processes_write_is_committed_once(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        uri = (tmp_path / str(number)).as_uri()

        def write(task: tuple[str, int], uri: str = uri) -> tables.Commit:
            writer, start = task
            return tables.append(
                TABLE, uri, ArrowFrame(id=range(start, start + 5)), writer=writer, batch_id=0
            )

        with ThreadPoolExecutor(6) as threads:
            commits = list(threads.map(write, [("a", 0)] * 3 + [("b", 100)] * 3))
        assert [commit.written for commit in commits].count(True) == 2
        assert Counter(row["id"] for row in tables.rows(uri)) == Counter([*range(5), *range(100, 105)])
        assert [change.operation for change in tables.history(uri)].count("CREATE TABLE") == 1
        assert len(list((tmp_path / str(number)).glob("*/*.parquet"))) == 2  # who lost took its file away


def test_overwrites_that_race_leave_the_rows_of_one(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        uri = (tmp_path / str(number)).as_uri()
        if number % 2:
            tables.overwrite(TABLE, uri, ArrowFrame(id=[]))
        with ThreadPoolExecutor(4) as threads:
            frames = [ArrowFrame(id=range(start, start + 5)) for start in (0, 100, 200, 300)]
            list(threads.map(lambda frame, uri=uri: tables.overwrite(TABLE, uri, frame), frames))
        ids = sorted(row["id"] for row in tables.rows(uri))
        assert ids in [list(range(start, start + 5)) for start in (0, 100, 200, 300)]


def test_of_racing_writers_with_different_new_columns_one_wins_and_the_others_are_told(
    tmp_path: Path,
) -> None:
    def write(uri: str, writer: int) -> str:
        try:
            frame = ArrowFrame(id=[writer], **{f"c{writer}": [1]})
            tables.append(TABLE, uri, frame, writer=str(writer), batch_id=0)
        except TableError as error:
            return str(error)
        return "written"

    for number in range(ROUNDS):
        uri = (tmp_path / str(number)).as_uri()
        tables.append(TABLE, uri, ArrowFrame(id=[0]), writer="first", batch_id=0)
        with ThreadPoolExecutor(4) as threads:
            outcomes = list(threads.map(write, [uri] * 4, range(1, 5)))
        assert outcomes.count("written") == 1
        assert sum("is missing in the rows" in outcome for outcome in outcomes) == 3
        assert len(tables.rows(uri)) == 2
