"""Copies of captured tables equal their sources row for row, whatever is done to the sources: real servers throughout."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

import gearshift as gs
from gearshift import stack as local
from gearshift.definitions import DatabaseKind
from gearshift.errors import DefinitionError
from gearshift.runner.runner import Runner
from gearshift.settings import Settings, load
from gearshift.sources.cdc.capture import Capture
from tests.copies import Copies, Source, big, declared, session_of
from tests.support import eventually

KINDS: tuple[DatabaseKind, ...] = ("postgres", "mariadb")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    home = tmp_path_factory.mktemp("copies")
    return load(
        {"home": home, "services": "postgres,mariadb,connect", "checkpoint_interval": "5 seconds"}, environ={}
    )


@pytest.fixture(scope="module")
def stack(settings: Settings) -> Iterator[local.Stack]:
    with local.up(settings) as running:
        yield running


@pytest.fixture(scope="module")
def runner(settings: Settings, stack: local.Stack, stores: local.Stack) -> Iterator[Runner]:
    for kind in KINDS:
        source = Source(kind, stack)
        source.create()
        source.run("INSERT INTO items (id, name) VALUES (1, 'one'), (2, 'two'), (3, 'three')")
    with Runner(declared(KINDS, stores), settings) as running:
        yield running


@pytest.fixture(params=KINDS)
def copies(
    request: pytest.FixtureRequest, runner: Runner, settings: Settings, stores: local.Stack
) -> Iterator[Copies]:
    cluster, session = session_of(stores)
    kind = cast("DatabaseKind", request.param)
    found = Copies(Source(kind, runner.stack), settings, stores, session)
    try:
        eventually(found.equal, every=0.5)
        yield found
        status = runner.status()
        assert [delivery["dead_letters"] for delivery in status["deliveries"]] == [0] * 4
        assert [(one["dead_letters"], one["gap"]) for one in status["pipelines"]] == [(0, 0)] * 2
    finally:
        cluster.shutdown()


def _settled(copies: Copies) -> None:
    try:
        eventually(copies.equal, within=60, every=0.5)
    except AssertionError:
        truth = copies.source.rows()
        for name, rows in copies.found().items():
            missing = [row for row in truth if row not in (rows or [])][:3]
            extra = [row for row in rows or [] if row not in truth][:3]
            assert rows == truth, f"{name} lacks {missing} and has {extra}"
        raise


def test_rows_that_get_other_keys(copies: Copies) -> None:
    source = copies.source
    ids = range(100, 108)
    source.run("INSERT INTO items (id, name) VALUES " + ", ".join(f"({id_}, 'n{id_}')" for id_ in ids))
    if source.kind == "mariadb":
        source.run("UPDATE items SET id = id + 1 WHERE id >= 100 ORDER BY id DESC")
    else:  # it checks keys row by row, in no order that a statement could ask for
        source.run(*(f"UPDATE items SET id = {id_ + 1} WHERE id = {id_}" for id_ in reversed(ids)))
    _settled(copies)
    assert [row[:2] for row in source.rows() if row[0] >= 100] == [(id_ + 1, f"n{id_}") for id_ in ids]
    source.run(
        "UPDATE items SET id = 999 WHERE id = 101",
        "UPDATE items SET id = 101 WHERE id = 102",
        "UPDATE items SET id = 102 WHERE id = 999",
    )
    _settled(copies)


def test_many_rows_and_repeated_keys_in_one_statement(copies: Copies) -> None:
    source = copies.source
    rows = ", ".join(f"({id_}, 'new', {id_ % 7}.25)" for id_ in range(1000, 3000))
    source.run(f"INSERT INTO items (id, name, amount) VALUES {rows}")
    source.run("UPDATE items SET amount = amount + 1, name = concat(name, '!') WHERE id >= 1000")
    if source.kind == "mariadb":
        twice = ", ".join(
            f"({id_}, '{name}')" for name in ("z-older", "a-newer") for id_ in range(2000, 2020)
        )
        source.run(f"INSERT INTO items (id, name) VALUES {twice} ON DUPLICATE KEY UPDATE name = VALUES(name)")
        source.run(f"REPLACE INTO items (id, name) VALUES {twice}")
    else:
        for name in ("z-older", "a-newer"):
            source.run(f"UPDATE items SET name = '{name}' WHERE id BETWEEN 2000 AND 2019")
    _settled(copies)
    assert {row[1] for row in source.rows() if 2000 <= row[0] < 2020} == {"a-newer"}
    source.run("DELETE FROM items WHERE id >= 1000")
    _settled(copies)


def test_rows_that_go_and_come_back_in_one_transaction(copies: Copies) -> None:
    copies.source.run(
        "DELETE FROM items WHERE id <= 2",
        "INSERT INTO items (id, name) VALUES (1, 'back')",
        "UPDATE items SET name = 'back and changed' WHERE id = 1",
        "INSERT INTO items (id, name) VALUES (2, 'back')",
        "DELETE FROM items WHERE id = 2",
    )
    _settled(copies)
    assert next(row[1] for row in copies.source.rows()) == "back and changed"


def test_updates_that_leave_large_values_as_they_are(copies: Copies) -> None:
    source = copies.source
    source.run(
        "INSERT INTO items (id, name, body, data) VALUES (50, 'large', %s, %s)",
        values=[big("b"), big("d").encode()],
    )
    if source.kind == "postgres":
        source.run(f"UPDATE items SET tags = ARRAY['{big('t')}', '{big('u')}'] WHERE id = 50")
    source.run("UPDATE items SET name = 'other' WHERE id = 50")
    source.run("UPDATE items SET id = 51 WHERE id = 50")
    source.run("UPDATE items SET amount = 1 WHERE id = 51")
    _settled(copies)
    source.run("DELETE FROM items WHERE id = 51")
    _settled(copies)


def test_a_truncate_with_rows_that_come_after_it(copies: Copies) -> None:
    source = copies.source
    source.run("INSERT INTO items (id, name) VALUES (70, 'goes'), (71, 'goes')")
    _settled(copies)
    source.run("TRUNCATE TABLE items")
    source.run("INSERT INTO items (id, name) VALUES (71, 'came'), (72, 'came')")
    _settled(copies)


def test_a_database_that_is_restored_from_a_backup(
    copies: Copies, settings: Settings, stack: local.Stack, tmp_path: Path
) -> None:
    source = copies.source
    data = settings.home / "stack" / source.kind / "data"
    source.run("INSERT INTO items (id, name) VALUES (80, 'in the backup'), (81, 'in the backup')")
    _settled(copies)
    stack.stop_service(source.kind)
    _copied(data, tmp_path / "backup")
    stack.start_service(source.kind)
    rows = ", ".join(f"({id_}, 'lost')" for id_ in range(5000, 7000))
    source.run(
        f"INSERT INTO items (id, name) VALUES {rows}", "UPDATE items SET name = 'lost too' WHERE id = 80"
    )
    _settled(copies)
    stack.stop_service(source.kind)
    data.rename(tmp_path / "lost")
    _copied(tmp_path / "backup", data)
    stack.start_service(source.kind)
    source.run("UPDATE items SET name = 'after the restore' WHERE id = 81", "DELETE FROM items WHERE id = 71")
    _settled(copies)
    assert tuple(row[1] for row in source.rows() if row[0] in (80, 81)) == (
        "in the backup",
        "after the restore",
    )
    source.run(
        "INSERT INTO items (id, name) VALUES (82, 'goes on')", "UPDATE items SET name = 'x' WHERE id = 80"
    )
    _settled(copies)


def test_columns_that_debezium_misreads_are_refused(
    runner: Runner, settings: Settings, stack: local.Stack
) -> None:
    @dataclass
    class Shift:
        id: int
        begins: str

    Source("mariadb", stack).run("CREATE TABLE shifts (id int PRIMARY KEY, begins time, code uuid)")
    capture = gs.App("copies").cdc("shifts-db", tables={"gearshift.shifts": Shift}, database="mariadb")
    running = Capture(capture, settings, stack.connection)
    with pytest.raises(DefinitionError, match=r"misreads gearshift\.shifts\.begins, whose type is time"):
        running.open()
    running.close()


def _copied(data: Path, to: Path) -> None:
    # Another user's files stay that user's.
    subprocess.run(["cp", "-a", data, to], check=True)
