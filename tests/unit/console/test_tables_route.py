"""The warehouse through the console's API: lists, columns, commits and queries with limits."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gearshift import tables
from gearshift.errors import TableError
from tests.arrow_frames import ArrowFrame, declared
from tests.consoles import Client, Reply, open_console


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    uri = (tmp_path / "warehouse").as_uri()
    frame = ArrowFrame({"id": "long", "name": "string"}, [(number, f"n{number}") for number in range(5)])
    tables.append(declared("orders"), tables.table_uri(uri, "orders"), frame, writer="w", batch_id=0)
    return uri


@pytest.fixture
def client(warehouse: str, tmp_path: Path) -> Iterator[Client]:
    with open_console(tmp_path, warehouse=warehouse) as client:
        yield client


def ask(client: Client, query: str, **more: Any) -> Reply:
    return client.post("/api/sql", {"query": query, **more})


def test_tables_are_listed_with_their_size(client: Client) -> None:
    [found] = client.get("/api/tables").data
    assert (found["table"], found["rows"], found["version"]) == ("orders", 5, 0)
    assert found["bytes"] > 0


def test_a_table_has_its_columns_and_commits(client: Client) -> None:
    found = client.get("/api/tables/orders").data
    assert found["columns"] == [{"name": "id", "type": "bigint"}, {"name": "name", "type": "string"}]
    assert [(change["version"], change["writer"], change["rows"]) for change in found["history"]] == [
        (0, "w", 5)
    ]


def test_an_unknown_table_is_not_found_and_the_nearest_name_is_suggested(client: Client) -> None:
    response = client.get("/api/tables/order")
    assert response.status == 404
    assert response.error["kind"] == "TableMissingError"
    assert response.error["hint"] == "did you mean orders?"


def test_a_damaged_table_does_not_hide_the_others(client: Client, tmp_path: Path) -> None:
    log = tmp_path / "warehouse" / "broken" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("{}\n")
    found = {each["table"]: each for each in client.get("/api/tables").data}
    assert found["broken"]["error"]["kind"] == "TableError"
    assert found["orders"]["rows"] == 5


def test_a_query_returns_columns_types_and_rows(client: Client) -> None:
    found = ask(client, "SELECT id, name, 1.50 AS price FROM orders ORDER BY id LIMIT 1").data
    assert found["columns"] == ["id", "name", "price"]
    assert found["types"] == ["BIGINT", "VARCHAR", "DECIMAL(3,2)"]
    assert found["rows"] == [[0, "n0", "1.50"]]
    assert not found["truncated"]


def test_rows_beyond_the_limit_are_left_out_and_not_computed(client: Client) -> None:
    found = ask(client, "SELECT * FROM orders", limit=2).data
    assert (len(found["rows"]), found["truncated"]) == (2, True)
    assert not ask(client, "SELECT * FROM orders", limit=5).data["truncated"]
    endless = ask(client, "SELECT * FROM range(1000000) a, range(1000000) b", limit=3).data
    assert (len(endless["rows"]), endless["truncated"]) == (3, True)


def test_a_query_without_end_is_interrupted(warehouse: str) -> None:
    limits = tables.Limits(rows=1, time=timedelta(seconds=0.5))
    with pytest.raises(TableError, match=r"did not end within 0\.5 s"):
        tables.sql(warehouse, "SELECT count(*) FROM range(1000000) a, range(1000000) b", limits=limits)


def test_a_query_that_needs_too_much_memory_fails_alone(client: Client, warehouse: str) -> None:
    limits = tables.Limits(rows=1, memory="20MB")
    with pytest.raises(TableError, match="needs more than 20MB"):
        tables.sql(warehouse, "SELECT list(range) FROM range(100000000)", limits=limits)
    assert ask(client, "SELECT 1").status == 200


@pytest.mark.parametrize(
    "query",
    [
        "",
        " ",
        "-- nothing",
        "SELECT",
        "SELECT * FROM nowhere",
        "COPY (SELECT 1) TO '/tmp/stolen.csv'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "ATTACH '/tmp/other.db'",
        "SET threads = 64",
        "SELECT INTERVAL '1000000000 days'",
        f"SELECT * FROM orders@v{'9' * 5000}",
        "SELECT * FROM orders@v7",
        "SELECT " + "[" * 600 + "1" + "]" * 600,
        "SELECT '\ud800'",
        "SELECT '\0",
    ],
)
def test_an_invalid_query_is_the_clients_error(client: Client, query: str) -> None:
    response = ask(client, query)
    assert response.status == 400, response.data
    assert response.error["what"]


@pytest.mark.parametrize("limit", [0, -1, 10_001, "many", "5", True, None])
def test_an_invalid_limit_is_refused(client: Client, limit: object) -> None:
    assert ask(client, "SELECT 1", limit=limit).status == 400


def test_a_query_in_the_console_can_not_change_a_table(client: Client) -> None:
    assert ask(client, "DELETE FROM orders").status == 400
    assert ask(client, "SELECT count(*) FROM orders").data["rows"] == [[5]]


def test_text_that_a_query_builds_does_not_grow_the_app(client: Client) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reply = client.post("/api/sql", {"query": "SELECT repeat('x', 1000000) AS t FROM range(1000000)"})
    assert reply.status == 400
    assert "memory" in reply.error["what"] or "did not end" in reply.error["what"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10, "in kilobytes"
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2 << 20
