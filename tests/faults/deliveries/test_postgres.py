"""Rows in PostgreSQL, with the offsets in the same transaction: a table that would keep a duplicate has none."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from gearshift import stack as local
from gearshift.connection import Connection
from tests.faults.deliveries.bench import Bench
from tests.faults.deliveries.ledger import Verdict
from tests.support import eventually


@pytest.mark.timeout(300)
@pytest.mark.parametrize("commit", ["sync", "async"])
def test_kills_and_rebalances_leave_each_row_once(
    connection: Connection, stores: local.Stack, tmp_path: Path, unique: str, commit: str
) -> None:
    dsn = stores.address("postgres")
    with psycopg.connect(dsn, autocommit=True) as database:
        database.execute(f'create table {unique} (nr bigserial, "key" text, n bigint)')

        def rows() -> list[tuple[str, int]]:
            return database.execute(f'select "key", n from {unique} order by nr').fetchall()

        with Bench(connection, tmp_path, unique, partitions=4, to=dsn, commit=commit, sleep=0.001) as b:
            with b.sending(rate=200, keys=20):
                b.start(member="0", die_in="handler", die_at=700)
                b.start(member="1", die_in="commit", die_at=2).await_end()
                b.start(member="2")
                joins = b.start(member="3")
                eventually(lambda: joins.status.get("delivered", 0) > 20, within=60)
                joins.leave()
                b.members[0].await_end()
            eventually(lambda: len(set(rows())) >= b.sent.total(), within=90)
            b.await_committed()
            verdict = b.verdict(rows())
    print(f"PostgreSQL, {commit}: {verdict}")
    assert verdict == Verdict(0, 0, 0)
