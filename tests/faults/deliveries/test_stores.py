"""Rows in real stores while consumers are killed and come and go.

In PostgreSQL the offsets are in the same transaction: a table that would keep a duplicate has none. In Cassandra
a row that comes again is the same row, and an older one replaces no newer.
"""

from __future__ import annotations

from pathlib import Path

import psycopg

from gearshift import stack as local
from gearshift.connection import Connection
from gearshift.destinations.cassandra.driver import ContactPoints, connect
from tests.faults.deliveries.bench import COMMITS, Bench, at_once
from tests.faults.deliveries.ledger import Verdict
from tests.faults.deliveries.plan import LATEST
from tests.support import eventually


def kill_and_rebalance(b: Bench) -> None:
    """Kill a consumer in its handler and one between write and commit, while others join and leave."""
    b.start(member="0", die_in="handler", die_at=700)
    b.start(member="1", die_in="commit", die_at=2).await_end()
    b.start(member="2")
    joins = b.start(member="3")
    eventually(lambda: joins.status.get("delivered", 0) > 20)
    joins.leave()
    b.members[0].await_end()


def test_kills_and_rebalances_leave_each_row_once(
    connection: Connection, stores: local.Stack, tmp_path: Path, unique: str
) -> None:
    dsn = stores.address("postgres")
    verdicts = at_once(
        lambda commit: to_postgres(connection, dsn, tmp_path, unique + commit, commit), COMMITS
    )
    assert verdicts == [Verdict(0, 0, 0)] * 2


def to_postgres(connection: Connection, dsn: str, folder: Path, unique: str, commit: str) -> Verdict:
    with psycopg.connect(dsn, autocommit=True) as database:
        database.execute(f'create table {unique} (nr bigserial, "key" text, n bigint)')

        def rows() -> list[tuple[str, int]]:
            return database.execute(f'select "key", n from {unique} order by nr').fetchall()

        with Bench(connection, folder, unique, partitions=4, to=dsn, commit=commit, sleep=0.001) as b:
            with b.sending(rate=200, keys=20):
                kill_and_rebalance(b)
            eventually(lambda: len(set(rows())) >= b.sent.total())
            b.await_committed()
            verdict = b.verdict(rows())
    print(f"PostgreSQL, {commit}: {verdict}")
    return verdict


def test_kills_and_rebalances_leave_the_truth_in_cassandra(
    connection: Connection, stores: local.Stack, tmp_path: Path, unique: str
) -> None:
    points = stores.address("cassandra")
    verdicts = at_once(
        lambda commit: to_cassandra(connection, points, tmp_path, unique + commit, commit), COMMITS
    )
    assert verdicts == [Verdict(0, 0, 0)] * 2


def to_cassandra(connection: Connection, points: str, folder: Path, unique: str, commit: str) -> Verdict:
    cluster, session = connect(ContactPoints.read(points), name="test")
    try:

        def rows() -> dict[tuple[str, int], int]:
            found = session.execute(f'select "key", n, latest from "{unique}"."numbered"')
            return {(row.key, row.n): row.latest for row in found}

        to = f"cassandra {points}"
        with Bench(connection, folder, unique, partitions=4, to=to, commit=commit, sleep=0.001) as b:
            with b.sending(rate=200, keys=20):
                kill_and_rebalance(b)
            b.await_all()
            b.await_committed()
            verdict = b.verdict((key, n) for key, n in sorted(rows()) if n != LATEST)
            latest = {key: value for (key, n), value in rows().items() if n == LATEST}
    finally:
        cluster.shutdown()
    print(f"Cassandra, {commit}: {verdict}")
    assert latest == {key: count - 1 for key, count in b.sent.items()}
    return verdict
