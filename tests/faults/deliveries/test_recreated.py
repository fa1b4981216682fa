"""A topic that is deleted and created again while deliveries of it run.

librdkafka reads on in the new topic where it was in the old one. With fewer records there it meets the end of the
log; with more it goes on in the middle, as if nothing had happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from gearshift import stack as local
from gearshift.connection import Connection
from tests.faults.deliveries.bench import COMMITS, Bench, at_once
from tests.faults.deliveries.ledger import Verdict, judge
from tests.gateways.http import HttpGateway
from tests.support import eventually

_READ = 120
CASES = [(commit, count) for commit in COMMITS for count in (_READ // 4, 3 * _READ)]
"""How offsets are committed, and how many records the new topic gets at once: fewer than were read, or more."""
Arrivals = Callable[[], list[tuple[str, int]]]


def recreated(b: Bench, count: int, arrivals: Arrivals, members: int = 1) -> Verdict:
    """Read, recreate, read, start again, read; what came of it."""
    for number in range(members):
        b.start(member=str(number))
    b.send(_READ)
    _await(b, arrivals)
    b.recreate(count)
    _await(b, arrivals)
    b.send(50)
    _await(b, arrivals)
    b.await_committed()
    for member in b.members:
        member.leave()
    b.start()
    b.send(50)
    _await(b, arrivals)
    return b.verdict(arrivals())


def _await(b: Bench, arrivals: Arrivals) -> None:
    try:
        eventually(lambda: len(set(arrivals())) >= b.sent.total(), within=60)
    except AssertionError:
        raise AssertionError(f"{b.name}: {b.verdict(arrivals())}") from None


@pytest.mark.parametrize("members", [1, 3])
def test_a_handler_gets_each_record_of_the_new_topic_once(
    connection: Connection, tmp_path: Path, unique: str, members: int
) -> None:
    def run(case: tuple[str, int]) -> Verdict:
        commit, count = case
        name = f"{unique}-{commit}-{count}"
        with Bench(connection, tmp_path, name, partitions=3, once=True, commit=commit) as b:
            return recreated(b, count, lambda: b.delivered, members)

    assert at_once(run, CASES) == [Verdict(0, 0, 0)] * len(CASES)


def test_a_webhook_gets_each_record_of_the_new_topic_once(
    connection: Connection, tmp_path: Path, unique: str
) -> None:
    def run(case: tuple[str, int]) -> tuple[Verdict, Verdict]:
        commit, count = case
        name = f"{unique}-{commit}-{count}"
        with (
            HttpGateway(deduplicate=True) as receiver,
            Bench(connection, tmp_path, name, to=receiver.url, commit=commit, parallelism=4) as b,
        ):
            posted = recreated(b, count, lambda: [(it.json["key"], it.json["n"]) for it in receiver.accepted])
            return posted, b.verdict()

    assert at_once(run, CASES) == [(Verdict(0, 0, 0), Verdict(0, 0, 0))] * len(CASES)


def test_a_topic_gets_each_record_of_the_new_topic_once(
    connection: Connection, tmp_path: Path, unique: str
) -> None:
    def run(case: tuple[str, int]) -> Verdict:
        commit, count = case
        name = f"{unique}-{commit}-{count}"
        with Bench(connection, tmp_path, name, to="topic", commit=commit) as b:
            return recreated(b, count, b.copies)

    assert at_once(run, CASES) == [Verdict(0, 0, 0)] * len(CASES)


def test_postgres_gets_each_record_of_the_new_topic_once(
    connection: Connection, stores: local.Stack, tmp_path: Path, unique: str
) -> None:
    dsn = stores.address("postgres")

    def run(case: tuple[str, int]) -> Verdict:
        commit, count = case
        name = f"{unique}_{commit}_{count}"
        with _table(dsn, name) as rows, Bench(connection, tmp_path, name, to=dsn, commit=commit) as b:
            return recreated(b, count, rows)

    assert at_once(run, CASES) == [Verdict(0, 0, 0)] * len(CASES)


@contextmanager
def _table(dsn: str, name: str) -> Iterator[Arrivals]:
    with psycopg.connect(dsn, autocommit=True) as database:
        database.execute(f'create table {name} (nr bigserial, "key" text, n bigint)')
        yield lambda: database.execute(f'select "key", n from {name} order by nr').fetchall()


def test_what_is_in_hand_of_the_old_topic_never_follows_a_record_of_the_new_one(
    connection: Connection, tmp_path: Path, unique: str
) -> None:
    """Thousands of records wait for a slow handler when their topic goes."""

    def run(commit: str) -> Verdict:
        with Bench(connection, tmp_path, f"{unique}-{commit}", commit=commit, sleep=0.002) as b:
            b.start()
            b.send(10_000)
            b.await_delivered(200)
            before = Counter(b.sent)
            b.recreate(11_000)
            new = Counter(b.sent) - before

            def delivered() -> list[tuple[str, int]]:
                return [(key, n - before[key]) for key, n in b.delivered if n >= before[key]]

            eventually(lambda: all(Counter(key for key, _ in delivered())[key] > 100 for key in new))
            # Up to where it is: each key's records from the first on, none twice, and none of the old after them.
            reached = {key: 1 + max(n for of, n in delivered() if of == key) for key in new}
            everything = judge(b.sent, b.delivered)
            assert everything.out_of_order == 0 == everything.duplicated
            return judge(reached, [(key, n) for key, n in delivered() if n < reached[key]])

    assert at_once(run, COMMITS) == [Verdict(0, 0, 0)] * 2
