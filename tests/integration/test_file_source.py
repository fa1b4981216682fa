"""Files dropped into a folder: each once, whole, and what does not fit is set aside with its place."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gearshift as gs
from gearshift.connection import Connection
from gearshift.definitions import FileSource
from gearshift.sources.files import source as files
from gearshift.sources.files.source import Files
from gearshift.topics import Admin, ConsumedRecord
from gearshift.topics.dead_letters.replay import replay
from tests.flow import committed, committed_values
from tests.support import eventually


@dataclass
class Order:
    order_id: int
    city: str
    amount: Annotated[Decimal, gs.DecimalOf(12, 2)]
    ordered_at: datetime | None = None


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HEADER = "order_id,city,amount,ordered_at\n"


@pytest.fixture
def source(connection: Connection, unique: str, tmp_path: Path) -> Callable[[str], FileSource]:
    """A folder of files of a format that go to a topic of their own."""
    app = gs.App(unique)
    topic = app.topic(f"{unique}-orders", value=Order, key="order_id", partitions=2)
    with Admin(connection) as admin:
        admin.ensure([topic])

    def declare(file_format: Any) -> FileSource:
        return app.files(
            "orders-in", folder=tmp_path / "in", to=topic, format=file_format, quiet="100 milliseconds"
        )

    return declare


@contextmanager
def taking(source: FileSource, connection: Connection) -> Iterator[Files]:
    running = Files(source, connection)
    running.open()
    try:
        yield running
    finally:
        running.close()
    assert running.error is None


def drop(source: FileSource, name: str, content: str | bytes) -> Path:
    """Write a file under a hidden name and rename it, as a careful sender does."""
    source.folder.mkdir(exist_ok=True)
    hidden = source.folder / f".{name}"
    hidden.write_bytes(content.encode() if isinstance(content, str) else content)
    return hidden.rename(source.folder / name)


def line(number: int) -> str:
    return f"{number},Ghent,{number}.50,2026-03-01T12:00:00Z\n"


def ids(connection: Connection, source: FileSource) -> list[int]:
    return sorted(order.order_id for order in committed_values(connection, source.topic))


def letters(connection: Connection, source: FileSource) -> list[ConsumedRecord]:
    return sorted(
        committed(connection, source.topic.dead_letters),
        key=lambda each: int(each.header("gearshift.line") or b"0"),
    )


def test_rows_that_fit_go_to_the_topic_and_the_others_to_its_dead_letters(
    source: Callable[[str], FileSource], connection: Connection
) -> None:
    orders = source("csv")
    bad = [
        "x,Ghent,1.00,",
        "3,Ghent,1.00",
        '4,"Ghent,1.00,',
        '5,"Gh"ent,1.00,',
        "6,Gh\udcffent,1.00,".encode("utf-8", "surrogateescape"),
        "7,Ghent,1.001,",
        "8,Ghent,1.00,yesterday",
        "9,Ghent,1.00,2026-03-01T12:00:00",
    ]
    text = HEADER.encode() + b'1,"Ghent, ""Old""\nTown",2.50,2026-03-01T12:00:00Z\r\n\n'
    for each in bad:
        text += (each if isinstance(each, bytes) else each.encode()) + b"\n"
    drop(orders, "monday.csv", text + b"2,Ghent,1.25,")
    with taking(orders, connection) as running:
        eventually(lambda: running.taken)
        assert (running.sent, running.dead) == (2, len(bad))
    assert sorted(committed_values(connection, orders.topic), key=lambda order: order.order_id) == [
        Order(1, 'Ghent, "Old"\nTown', Decimal("2.50"), NOON),
        Order(2, "Ghent", Decimal("1.25"), None),
    ]
    found = letters(connection, orders)
    assert [each.value for each in found] == [
        each if isinstance(each, bytes) else each.encode() for each in bad
    ]
    assert [each.header("gearshift.line") for each in found] == [b"%d" % number for number in range(5, 13)]
    assert {each.header("gearshift.file") for each in found} == {b"monday.csv"}
    reasons = [(each.header("gearshift.reason") or b"").decode() for each in found]
    assert reasons[0] == "field order_id: is not an integer"
    assert reasons[1] == "has 3 columns, but the header has 4"
    assert "is not valid CSV" in reasons[2]
    assert "is not UTF-8" in reasons[4]
    assert "field amount: has more than 2 digits after the point" in reasons[5]
    assert reasons[7].startswith("field ordered_at: is not an RFC 3339 time with a zone")
    assert not list(orders.folder.glob("*.csv"))
    assert (orders.folder / "taken" / "monday.csv").exists()
    # Nobody could read the rows as records: they do not go back to the topic.
    left = replay(connection, orders.topic.name)
    assert (left.letters, left.rows) == (0, len(bad))
    assert ids(connection, orders) == [1, 2]


def test_a_file_is_taken_once_however_often_it_comes_and_other_content_is_another_file(
    source: Callable[[str], FileSource], connection: Connection
) -> None:
    orders = source("jsonl")
    one = json.dumps({"order_id": 1, "city": "Ghent", "amount": "1.50"}) + "\n"
    drop(orders, "day.jsonl", one)
    with taking(orders, connection) as running:
        eventually(lambda: running.taken == 1)
    drop(orders, "day.jsonl", one)
    with taking(orders, connection) as running:
        eventually(lambda: running.repeated == 1 and not (orders.folder / "day.jsonl").exists())
        drop(
            orders, "day.jsonl", one.replace("1,", "2,") + '{"order_id": 3, "town": "Ghent", "amount": "1"}\n'
        )
        eventually(lambda: running.taken == 1)
    assert ids(connection, orders) == [1, 2]
    reason = letters(connection, orders)[0].header("gearshift.reason")
    assert reason == b"field city: is missing"
    assert {path.name for path in (orders.folder / "taken").iterdir()} == {
        "day.jsonl",
        "day.2.jsonl",
        "day.3.jsonl",
    }


def test_a_file_that_is_still_written_is_left_alone_until_it_is_whole(
    source: Callable[[str], FileSource], connection: Connection
) -> None:
    orders = source("csv")
    orders.folder.mkdir()
    growing = (orders.folder / "slow.csv").open("w")
    growing.write(HEADER + line(1) + "2,Gh")
    growing.flush()
    # Nobody has this one open, and yet its last line is not all there.
    (orders.folder / "cut.csv").write_text(HEADER + line(5) + "6,Ghe")
    drop(orders, "other.csv", HEADER + line(9))
    (orders.folder / "copying.csv.part").write_text(HEADER + line(8))
    (orders.folder / "readme.txt").write_text("not ours")
    orders = replace(orders, quiet=timedelta(seconds=1))
    with taking(orders, connection) as running:
        eventually(lambda: running.taken == 1)
        assert ids(connection, orders) == [9]
        with (orders.folder / "cut.csv").open("a") as rest:
            rest.write("nt,6.00,\n")
        assert (orders.folder / "slow.csv").exists()
        growing.write("ent,2.50,\n")
        growing.close()
        eventually(lambda: running.taken == 3)
    assert ids(connection, orders) == [1, 2, 5, 6, 9]
    assert letters(connection, orders) == []
    assert {path.name for path in orders.folder.iterdir()} == {"copying.csv.part", "readme.txt", "taken"}


@pytest.mark.parametrize(
    ("file_format", "content", "words"),
    [
        (
            "csv",
            "order_id,citty,amount\n1,Ghent,1\n",
            "field citty: Order has no such field; did you mean city?",
        ),
        ("csv", "order_id;city;amount\n1;Ghent;1\n", "separate the columns with commas"),
        ("csv", "order_id,city\n1,Ghent\n", "field amount: has no column"),
        ("csv", "", "it has no header"),
        ("csv", b"PAR1\0\0\0", "it contains binary data and is not CSV"),
        ("parquet", b"PAR1 and no more", "it is not a complete Parquet file"),
    ],
)
def test_a_file_of_a_wrong_kind_is_set_aside_with_its_reason_and_can_come_again(
    source: Callable[[str], FileSource],
    connection: Connection,
    file_format: str,
    content: str | bytes,
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    orders = source(file_format)
    name = f"monday.{file_format}"
    drop(orders, name, content)
    with taking(orders, connection) as running:
        eventually(lambda: running.refused == 1)
        assert running.taken == 0
    refused = orders.folder / "refused" / name
    assert refused.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert words in refused.with_name(f"{name}.error").read_text()
    assert [record.message for record in caplog.records if words in record.message] != []


def test_parquet_columns_become_the_types_of_the_fields(
    source: Callable[[str], FileSource], connection: Connection
) -> None:
    orders = source("parquet")
    table = pa.table(
        {
            "amount": pa.array([1.5, 2.25, None], pa.float64()).cast(pa.decimal128(20, 4)),
            "order_id": pa.array([1, 2, 3], pa.int32()),
            "city": pa.array(["Ghent", "Bruges", "Ghent"]).dictionary_encode(),
            "ordered_at": pa.array([NOON.replace(tzinfo=None), None, None], pa.timestamp("ns")),
        }
    )
    orders.folder.mkdir()
    pq.write_table(table, orders.folder / ".p")
    whole = (orders.folder / ".p").read_bytes()
    drop(orders, "half.parquet", whole[: len(whole) // 2])
    (orders.folder / ".p").rename(orders.folder / "whole.parquet")
    with taking(orders, connection) as running:
        eventually(lambda: running.taken and running.refused)
        assert (running.sent, running.dead) == (2, 1)
    assert sorted(committed_values(connection, orders.topic), key=lambda order: order.order_id) == [
        Order(1, "Ghent", Decimal("1.50"), NOON),
        Order(2, "Bruges", Decimal("2.25"), None),
    ]
    letter = letters(connection, orders)[0]
    assert letter.header("gearshift.line") == b"3"
    assert json.loads(letter.value or b"")["order_id"] == 3
    assert letter.header("gearshift.reason") == b"field amount: is null"


def test_a_large_file_comes_in_parts_and_a_stop_between_them_loses_and_repeats_nothing(
    source: Callable[[str], FileSource], connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_TRANSACTION_ROWS", 400)
    orders = source("csv")
    drop(orders, "large.csv", HEADER + "".join(line(number) for number in range(5_000)))
    stops = 0
    while stops < 3:
        with taking(orders, connection) as running:
            eventually(lambda running=running: running.sent > 400, every=0.001)
        stops += 1
    with taking(orders, connection) as running:
        eventually(lambda: not list(orders.folder.glob("*.csv")))
    assert ids(connection, orders) == list(range(5_000))


def test_a_folder_that_we_may_only_read_is_left_as_it_is(
    source: Callable[[str], FileSource], connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tests may run as root, whom no permission stops: so the move itself is refused.
    def refused(*_: object, **__: object) -> None:
        raise PermissionError("read-only")

    orders = source("csv")
    path = drop(orders, "monday.csv", HEADER + line(1))
    monkeypatch.setattr(os, "rename", refused)
    for _ in range(2):
        with taking(orders, connection) as running:
            eventually(lambda running=running: running.taken + running.repeated == 1)
    assert path.exists()
    assert ids(connection, orders) == [1]


def test_a_name_that_is_not_utf_8_is_taken_or_refused_like_any_other(
    source: Callable[[str], FileSource], connection: Connection
) -> None:
    orders = source("csv")
    drop(orders, os.fsdecode(b"caf\xe9.csv"), HEADER + line(1) + "x\n")
    drop(orders, os.fsdecode(b"bad\xe9.csv"), "other\n1\n")
    drop(orders, os.fsdecode(b"skip\xe9.txt"), "")
    with taking(orders, connection) as running:
        eventually(lambda: (running.taken, running.refused) == (1, 1) or not running.running, within=60)
        assert (running.taken, running.refused, running.error) == (1, 1, None)
        drop(orders, "next.csv", HEADER + line(2))
        eventually(lambda: running.taken == 2)
    with taking(orders, connection) as running:
        drop(orders, os.fsdecode(b"caf\xe9.csv"), HEADER + line(1) + "x\n")
        eventually(lambda: running.repeated == 1)
    assert ids(connection, orders) == [1, 2]
    assert [each.header("gearshift.file") for each in letters(connection, orders)] == [b"caf\\xe9.csv"]
    reason = orders.folder / "refused" / os.fsdecode(b"bad\xe9.csv.error")
    assert "bad\\xe9.csv" in reason.read_text("utf-8")


def test_what_another_user_goes_on_writing_is_not_lost(
    source: Callable[[str], FileSource], connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As for a file of another user: whether it is open for writing is not told.
    monkeypatch.setattr(files, "is_being_written", lambda _: None)
    orders = source("csv")
    path = drop(orders, "monday.csv", HEADER + line(1))
    with taking(orders, connection) as running, path.open("a", encoding="utf-8") as writer:
        began = time.monotonic()
        eventually(lambda: running.taken == 1)
        assert time.monotonic() - began > 0.9  # ten times as long as a file that is known to be whole
        writer.write(line(2))
        writer.flush()
        eventually(lambda: running.taken == 2)
    assert ids(connection, orders) == [1, 1, 2]
    assert (orders.folder / "taken" / "monday.csv").read_text() == HEADER + line(1) + line(2)
