"""MariaDB as a service of the local stack: one account, on loopback, with what change capture needs and no more."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from gearshift import stack as local
from gearshift.settings import Settings, load
from gearshift.sources.cdc.databases import Database
from tests.support import eventually


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    elsewhere = {"bootstrap_servers": "127.0.0.1:1", "registry_url": "http://127.0.0.1:1"}
    settings = load({"home": tmp_path / "home", "services": "mariadb", **elsewhere}, environ={})
    yield settings
    local.down(settings)


def ask(at: Database, statement: str, **other: Any) -> list[Any]:
    known: dict[str, Any] = {"user": at.user, "password": at.password or "", "database": at.name}
    with (
        pymysql.connect(host=at.host, port=at.port, autocommit=True, **{**known, **other}) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
        return list(cursor.fetchall())


def test_only_the_account_gets_in_and_it_cannot_get_out_and_what_was_written_survives_a_kill(
    settings: Settings,
) -> None:
    with local.up(settings) as stack:
        at = Database.read(stack.address("mariadb"), "mariadb")
        assert ask(at, "SELECT @@bind_address, @@binlog_format, @@binlog_row_image, @@local_infile") == [
            ("127.0.0.1", "ROW", "FULL", 0)
        ]
        folder = settings.home / "stack" / "mariadb"
        assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "data")] == [0o700, 0o700]
        file = folder / "password"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert len(at.password or "") >= 24
        shown = json.dumps(local.describe(settings)) + repr(stack.services)
        shown += (settings.home / "stack" / "logs" / "mariadb.log").read_text()
        assert (at.password or "") not in shown
        for user, password in (("gearshift", ""), ("gearshift", "guess"), ("root", ""), ("", "")):
            with pytest.raises(pymysql.err.OperationalError, match=r"Access denied|not allowed"):
                ask(at, "SELECT 1", user=user, password=password)
        for way_out in (
            "SELECT 1 INTO OUTFILE '/tmp/x'",
            "SELECT load_file('/etc/passwd') + (SELECT count(*) FROM mysql.global_priv)",
            "CREATE USER other",
            "GRANT FILE ON *.* TO gearshift@127.0.0.1",
            "SET GLOBAL general_log = 1",
            "INSTALL SONAME 'x'",
            "CREATE DATABASE other",
        ):
            with pytest.raises(pymysql.err.MySQLError, match=r"denied"):
                ask(at, way_out)
        ask(at, "CREATE TABLE orders (id int PRIMARY KEY)")
        ask(at, "INSERT INTO orders VALUES (1)")
        end = at.log_end()
        assert end.gtids == {"0": 2} and end.gtids_then == {}
        pid = next(service.pid for service in stack.services)
        os.kill(pid.number, signal.SIGKILL)
        eventually(stack.dead)
        stack.start_service("mariadb")
        assert ask(at, "SELECT id FROM orders") == [(1,)]
        again = at.log_end()
        assert again.gtids == again.gtids_then == {"0": 2}
        assert again.reaches({"gtids": "0-1-2", "ts_sec": again.started - 1})
    with pytest.raises(pymysql.err.OperationalError):
        ask(at, "SELECT 1")
