"""Published tables, as Spark SQL reads them from a Hive metastore in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pytest
from pyspark.sql import DataFrame

import gearshift as gs
from gearshift import tables
from gearshift.errors import DefinitionError, TableError
from gearshift.runner.runner import Runner
from gearshift.settings import Settings
from gearshift.spark.hive.metastore import JavaMetastore
from gearshift.topics.producer import Producer
from tests import hive_processes
from tests.arrow_frames import ArrowFrame, declared
from tests.command import GEARSHIFT
from tests.hive_processes import Reader
from tests.support import closed_port, eventually

DAYS = [date(2026, 2, number) for number in (26, 27, 28)]


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A metastore of somebody else's."""
    with hive_processes.metastore(tmp_path_factory.mktemp("metastore")) as found:
        yield found


@pytest.fixture(scope="module")
def reader(uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Spark SQL over that metastore."""
    log = tmp_path_factory.mktemp("reader") / "log"
    with Reader({"spark.hadoop.hive.metastore.uris": uri}, log) as asking:
        yield asking


@pytest.fixture(scope="module")
def metastore(uri: str, java: Any, tmp_path_factory: pytest.TempPathFactory) -> JavaMetastore:
    return JavaMetastore(java, uri=uri, folder=tmp_path_factory.mktemp("hive"))


@pytest.fixture
def name() -> str:
    return f"t{uuid.uuid4().hex[:8]}"


@pytest.fixture
def table_uri(tmp_path: Path, name: str) -> str:
    return tables.table_uri((tmp_path / "ware house").as_uri(), name)


def test_spark_sql_reads_every_type_and_partition_as_the_warehouse_does(
    metastore: JavaMetastore, reader: Reader, table_uri: str, name: str
) -> None:
    point = {"type": "struct", "fields": [{"name": "X", "type": "long", "nullable": True, "metadata": {}}]}
    columns = {
        "Place": "string",
        "day": "date",
        "Id": "long",
        "price": "decimal(12,2)",
        "at": "timestamp",
        "local": "timestamp_ntz",
        "born": "date",
        "tags": {"type": "array", "elementType": "string", "containsNull": True},
        "counts": {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True},
        "point": point,
        "raw": "binary",
    }
    at = datetime(2026, 2, 28, 23, 59, 59, 123456, UTC)
    places = ["a b", "b/c=%d", "ü", "it's", None]
    rows = [
        (
            place,
            DAYS[n % 3],
            n,
            Decimal(f"{n}.05"),
            at,
            at.replace(tzinfo=None),
            DAYS[0],
            ["x"],
            {"k": n},
            {"X": n},
            b"\0",
        )
        for n, place in enumerate(places)
    ]
    rows.append((None, None, 9, None, None, None, None, None, None, None, None))
    table = declared(name, "Place", "day")
    tables.append(table, table_uri, ArrowFrame(columns, rows), writer="w", batch_id=0)
    assert tables.publish(metastore, table_uri).rows == 6

    said = (
        "Id, price, cast(at as string), cast(local as string), born, tags[0], counts['k'], point.X, hex(raw)"
    )
    found = reader.ask(f"SELECT Place, day, {said} FROM {name} ORDER BY Id")
    times = ["2026-02-28 23:59:59.123456"] * 2
    assert found == [
        *(
            [place, str(DAYS[n % 3]), n, f"{n}.05", *times, "2026-02-26", "x", n, n, "00"]
            for n, place in enumerate(places)
        ),
        [None, None, 9, *[None] * 8],
    ]
    assert reader.ask(f"SELECT Id FROM {name} WHERE day = DATE'2026-02-27' ORDER BY Id") == [[1], [4]]
    described = [row[0] for row in reader.ask(f"DESCRIBE {name}")]
    assert described[:4] == ["Id", "price", "at", "local"]
    # Hive's own reader of Parquet, of the version that Spark brings, instead of Spark's.
    reader.ask("SET spark.sql.hive.convertMetastoreParquet=false")
    hive = reader.ask(f"SELECT place, id, born, point.x FROM {name} WHERE id < 9 ORDER BY id")
    reader.ask("SET spark.sql.hive.convertMetastoreParquet=true")
    nowhere = "__HIVE_DEFAULT_PARTITION__"  # which is how Hive itself shows a partition without a value
    assert hive == [[place or nowhere, n, "2026-02-26", n] for n, place in enumerate(places)]


@pytest.mark.parametrize("kind", ["append", "partitioned", "keyed"])
def test_a_reader_of_hive_never_sees_half_a_batch(
    metastore: JavaMetastore, reader: Reader, table_uri: str, name: str, kind: str
) -> None:
    """Every batch writes one row a day; of a keyed table it replaces those of before, and each deletes some more."""
    keyed = kind == "keyed"
    table = declared(
        name,
        *([] if kind == "append" else ["day"]),
        **({"key": ("id",), "sequence_by": ("batch",), "deleted": "gone"} if keyed else {}),
    )
    columns = {"id": "long", "batch": "long", "day": "date", **({"gone": "boolean"} if keyed else {})}
    last = 12

    def rows(batch: int) -> ArrowFrame:
        found: list[tuple[Any, ...]] = [
            (n if keyed else batch * 3 + n, batch, day) for n, day in enumerate(DAYS)
        ]
        if keyed:
            found = [(*row, False) for row in found]
            found += [(100 + batch, batch, DAYS[0], False), (99 + batch, batch, DAYS[0], True)]
        return ArrowFrame(columns, found)

    def look() -> tuple[int, ...]:
        found = reader.ask(
            f"SELECT batch, count(*), count(DISTINCT day) FROM {name} GROUP BY batch ORDER BY batch"
        )
        batches = [row[0] for row in found]
        if keyed:
            assert [row[1:] for row in found] == [[4, 3]], found
        else:
            assert all(row[1:] == [3, 3] for row in found), found
            assert batches == list(range(len(batches)))
        return tuple(batches)

    def write() -> None:
        for batch in range(1, last + 1):
            (tables.upsert if keyed else tables.append)(
                table, table_uri, rows(batch), writer="w", batch_id=batch
            )
            tables.publish(metastore, table_uri)

    (tables.upsert if keyed else tables.append)(table, table_uri, rows(0), writer="w", batch_id=0)
    tables.publish(metastore, table_uri)
    seen = [look()]
    with ThreadPoolExecutor(1) as thread:
        writing = thread.submit(write)
        while not writing.done():
            seen.append(look())
        writing.result()
    assert look()[-1] == last
    assert len(set(seen)) > 1  # it did look in between
    tables.compact(table_uri)
    # Upserts leave one file a partition, and then there is nothing to compact.
    assert tables.publish(metastore, table_uri).changed or keyed
    assert look()[-1] == last
    assert not tables.publish(metastore, table_uri).changed
    assert len(tables.rows(table_uri)) == reader.ask(f"SELECT count(*) FROM {name}")[0][0]


def test_columns_evolve_and_partitions_go(
    metastore: JavaMetastore, reader: Reader, table_uri: str, name: str
) -> None:
    table = declared(name, "day")
    first = ArrowFrame({"n": "integer", "day": "date"}, [(n, day) for n, day in enumerate(DAYS)])
    tables.append(table, table_uri, first, writer="w", batch_id=0)
    tables.publish(metastore, table_uri)
    wider = ArrowFrame({"n": "long", "day": "date", "more": "string"}, [(2**40, DAYS[0], "x")])
    tables.append(table, table_uri, wider, writer="w", batch_id=1)
    tables.publish(metastore, table_uri)
    assert reader.ask(f"SELECT n, more FROM {name} ORDER BY n") == [
        [0, None],
        [1, None],
        [2, None],
        [2**40, "x"],
    ]
    others = ArrowFrame(
        {"n": "date", "day": "date"}, [(DAYS[0], DAYS[1])]
    )  # what Hive does not take for a number
    tables.overwrite(table, table_uri, others)
    tables.publish(metastore, table_uri)
    assert reader.ask(f"SELECT * FROM {name}") == [[str(DAYS[0]), str(DAYS[1])]]
    assert reader.ask(f"SHOW PARTITIONS {name}") == [[f"day={DAYS[1]}"]]


class _Dying(JavaMetastore):
    """A process that is killed when the new partitions are there and the old ones not yet changed."""

    def move(self, *_: Any) -> None:
        raise KeyboardInterrupt


def test_a_publisher_that_was_killed_shows_nothing_and_the_next_one_all(
    metastore: JavaMetastore, reader: Reader, uri: str, table_uri: str, name: str, tmp_path: Path
) -> None:
    table = declared(name, "day")
    tables.append(table, table_uri, _rows(0, DAYS[:2]), writer="w", batch_id=0)
    tables.publish(metastore, table_uri)
    tables.append(table, table_uri, _rows(2, DAYS), writer="w", batch_id=1)
    with pytest.raises(KeyboardInterrupt):
        tables.publish(_Dying(metastore.jvm, uri=uri, folder=tmp_path), table_uri)
    assert reader.ask(f"SELECT count(*), count(DISTINCT day) FROM {name}") == [[2, 2]]
    tables.publish(metastore, table_uri)
    assert reader.ask(f"SELECT count(*), count(DISTINCT day) FROM {name}") == [[5, 3]]
    reader.ask(f"ALTER TABLE {name} DROP PARTITION (day = DATE'2026-02-26')")  # somebody meddles
    tables.append(table, table_uri, _rows(5, DAYS), writer="w", batch_id=2)
    tables.publish(metastore, table_uri)
    assert reader.ask(f"SELECT count(*), count(DISTINCT day) FROM {name}") == [[8, 3]]


def test_folders_that_nobody_reads_any_more_go_and_rows_stay(
    metastore: JavaMetastore, reader: Reader, table_uri: str, name: str
) -> None:
    table = declared(name)
    for batch in range(3):
        tables.append(table, table_uri, _rows(batch, [DAYS[0]]), writer="w", batch_id=batch)
        tables.publish(metastore, table_uri)
    folder = Path(tables.require_linkable(table_uri)) / "_gearshift_hive"
    assert len(list(folder.glob("files-*"))) == 3
    then = datetime.now(UTC).timestamp() - timedelta(hours=2).total_seconds()
    for path in folder.iterdir():
        os.utime(path, (then, then))
    tables.append(table, table_uri, _rows(3, [DAYS[0]]), writer="w", batch_id=3)
    tables.publish(metastore, table_uri)
    assert len(list(folder.glob("files-*"))) == 2  # the newest, and the one that a reader may be in
    for path in folder.parent.rglob("*"):
        os.utime(path, (then, then))
    tables.compact(table_uri, now=datetime.fromtimestamp(then, UTC))
    assert tables.vacuum(table_uri, timedelta(hours=1)).paths
    assert reader.ask(f"SELECT count(*) FROM {name}") == [[4]]


def test_a_table_of_somebody_else_is_not_replaced(
    metastore: JavaMetastore, reader: Reader, table_uri: str, name: str
) -> None:
    reader.ask(f"CREATE TABLE {name} (a int) STORED AS PARQUET")
    tables.append(declared(name), table_uri, _rows(0, DAYS), writer="w", batch_id=0)
    with pytest.raises(TableError, match=f"Hive already has a table default.{name} of another owner"):
        tables.publish(metastore, table_uri)
    assert reader.ask(f"SELECT * FROM {name}") == []


@dataclass
class Sale:
    shop: str
    price: Annotated[Decimal, gs.DecimalOf(12, 2)]
    sold_at: datetime


def test_an_app_publishes_every_batch_that_it_commits(
    unique: str, settings: Settings, uri: str, reader: Reader
) -> None:
    app = gs.App(unique)
    sales = app.topic(f"{unique}-sales", value=Sale, key="shop")
    kept = app.table(f"{unique}_kept", partition_by="shop", publish="hive")

    @app.pipeline(source=sales, to=kept, gear="near-real-time", freshness="1 second")
    def keep(sales: DataFrame) -> DataFrame:
        return sales

    def seen() -> list[list[Any]]:
        shown = reader.ask(f"SHOW TABLES LIKE '{kept.name}'")
        return (
            reader.ask(f"SELECT shop, sum(price), max(sold_at) FROM {kept.name} GROUP BY shop ORDER BY shop")
            if shown
            else []
        )

    def wait_for(total: str) -> None:
        wanted = [[shop, total, "2026-02-28 12:00:00.000005"] for shop in ("a", "b")]
        eventually(lambda: seen() == wanted, every=0.3)

    def sell() -> None:
        with Producer(runner.context.connection) as producer:
            for shop in ("a", "b"):
                producer.send(sales, Sale(shop, Decimal("1.25"), at))

    at = datetime(2026, 2, 28, 12, 0, 0, 5, UTC)
    with Runner(app, settings.model_copy(update={"hive_metastore": uri})) as runner:
        sell()
        wait_for("1.25")
        sell()
        wait_for("2.50")
        # Somebody takes the table away; what comes meanwhile waits in the topic until it is back.
        folder = tables.require_linkable(runner.context.table_uri(kept))
        folder.rename(folder.with_suffix(".away"))
        sell()
        gone = f"table {kept.name} no longer exists at .* \\(pipeline keep\\); restore its folder"
        supervisor = runner.supervisors["keep"]
        eventually(lambda: re.search(gone, supervisor.condition.error or ""))
        assert not folder.exists()
        folder.with_suffix(".away").rename(folder)
        wait_for("3.75")
    assert {row["price"] for row in tables.rows(runner.context.table_uri(kept))} == {Decimal("1.25")}


def test_a_metastore_that_is_down_stops_no_pipeline(
    unique: str, settings: Settings, java: Any, tmp_path: Path
) -> None:
    app = gs.App(unique)
    sales = app.topic(f"{unique}-sales", value=Sale, key="shop")
    kept = app.table(f"{unique}_kept", publish="hive")

    @app.pipeline(source=sales, to=kept, gear="near-real-time", freshness="1 second")
    def keep(sales: DataFrame) -> DataFrame:
        return sales

    port = closed_port()
    uri = f"thrift://127.0.0.1:{port}"
    with (
        Runner(app, settings.model_copy(update={"hive_metastore": uri})) as runner,
        Producer(runner.context.connection) as producer,
    ):

        def status() -> dict[str, Any]:
            (found,) = runner.status()["pipelines"]
            return found

        for number in (1, 2):
            producer.send(sales, Sale("a", Decimal(number), datetime(2026, 2, 28, 12, tzinfo=UTC)))
            producer.flush()
            eventually(lambda number=number: status()["written"] == number)
        found = status()
        assert (found["state"], found["restarts"], found["records"]) == ("running", 0, 2)
        assert f"cannot reach the Hive metastore at {uri}" in found["warning"]
        with hive_processes.metastore(tmp_path, port):
            eventually(lambda: status()["warning"] is None)
            shown = JavaMetastore(java, uri=uri, folder=tmp_path / "hive").table(kept.name)
            assert shown is not None
            newest = tables.read_paths(runner.context.table_uri(kept)).version
            assert shown.properties["gearshift.version"] == str(newest)


def test_the_embedded_metastore_is_read_with_what_the_command_prints(tmp_path: Path) -> None:
    warehouse = tmp_path / ".gearshift" / "warehouse"
    table_uri = tables.table_uri(warehouse.as_uri(), "Bills")
    tables.append(declared("Bills", "day"), table_uri, _rows(0, DAYS), writer="w", batch_id=0)
    done = _gearshift(tmp_path, "table", "publish", "Bills", "--hive", "-o", "json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["table"], told["version"], told["rows"]) == ("default.bills", 0, 3)
    with Reader(told["spark"], tmp_path / "log") as embedded:
        assert embedded.ask("SELECT count(*), count(DISTINCT day) FROM bills") == [[3, 3]]
        taken = _gearshift(tmp_path, "table", "publish", "Bills", "--hive")
    assert taken.returncode == 1
    assert "is in use by another process" in taken.stderr


def test_each_wrong_use_has_its_own_clear_error(tmp_path: Path) -> None:
    port = closed_port()
    table_uri = tables.table_uri((tmp_path / ".gearshift" / "warehouse").as_uri(), "bills")
    tables.append(declared("bills"), table_uri, _rows(0, DAYS), writer="w", batch_id=0)
    away = {"GEARSHIFT_HIVE_METASTORE": f"thrift://127.0.0.1:{port}"}
    cases = [
        ({}, ("publish", "bills"), 2, "choose where to publish: --hive"),
        ({}, ("publish", "bill", "--hive"), 1, "did you mean bills?"),
        (
            {"GEARSHIFT_HIVE_METASTORE": "http://hive"},
            ("publish", "bills", "--hive"),
            2,
            "must be thrift://host:port",
        ),
        (
            away,
            ("publish", "bills", "--hive"),
            1,
            f"cannot reach the Hive metastore at thrift://127.0.0.1:{port}",
        ),
    ]
    for environ, words, code, said in cases:
        done = _gearshift(tmp_path, "table", *words, **environ)
        assert done.returncode == code, done
        assert said in " ".join(done.stderr.split()), done.stderr
        assert "Traceback" not in done.stderr
    app = gs.App("wrong")
    with pytest.raises(DefinitionError, match="has publish='spark'"):
        app.table("t", publish="spark")  # pyright: ignore[reportArgumentType]


def _rows(start: int, days: list[date]) -> ArrowFrame:
    return ArrowFrame({"id": "long", "day": "date"}, [(start + n, day) for n, day in enumerate(days)])


def _gearshift(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GEARSHIFT_")}
    return subprocess.run(
        [GEARSHIFT, *words],
        cwd=folder,
        env={**kept, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
