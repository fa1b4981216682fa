"""MariaDB 11.4 from a jar: one server on loopback that requires a password."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from gearshift.errors import StackError
from gearshift.stack.artifacts import artifacts
from gearshift.stack.processes.ports import HOST
from gearshift.stack.processes.service import Service
from gearshift.stack.services.accounts import USER, account_of

GROUPS = ("mariadb",)
DATABASE = USER
_PROTOCOL = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class MariaDB:
    """One server: its data folder and its port."""

    folder: Path
    logs: Path
    programs: Path
    port: int

    def services(self) -> list[Service]:
        """The server, with its data directory and account created, ready to start."""
        if not self._data.exists():
            self._initialize()
        options = {
            "bind-address": HOST,
            "port": self.port,
            "socket": "socket",  # relative to its own folder, since a longer path may exceed the limit
            "pid-file": "pid",
            # Change data capture reads whole rows from the binlog.
            "log-bin": "binlog",
            "binlog-format": "ROW",
            "binlog-row-image": "FULL",
            "server-id": 1,
            "default-time-zone": "+00:00",
            "character-set-server": "utf8mb4",
            "innodb-buffer-pool-size": "64M",
            "skip-name-resolve": "ON",
            "skip-symbolic-links": "ON",
            "local-infile": "OFF",
            # On loopback it would only generate a key at every start, which takes seconds.
            "ssl": "OFF",
        }
        service = Service(
            name="mariadb",
            command=(
                *self._command(self._data),
                *(f"--{name}={value}" for name, value in options.items()),
            ),
            environment=_environment(),
            log=self.logs / "mariadb.log",
            port=self.port,
            address=f"mariadb://{HOST}:{self.port}/{DATABASE}",
            ready=lambda: is_ready(self.port),
            folder=self._data.absolute(),
        )
        return [service]

    @property
    def _data(self) -> Path:
        return self.folder.absolute() / "data"

    def _command(self, data: Path) -> tuple[str, ...]:
        # As root this must be explicit; another user could not enter the parent folders, and no account of the server
        # can read or write files outside its tables.
        user = ("--user=root",) if os.geteuid() == 0 else ()
        return (
            str(self.programs / "bin" / "mariadbd"),
            "--no-defaults",
            *user,
            f"--basedir={self.programs}",
            f"--datadir={data}",
        )

    def _initialize(self) -> None:
        """Create the data directory under another name and rename it when it is complete."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        account = account_of(self.folder, make=True)
        made = self.folder.absolute() / "data.new"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(mode=0o700)
        tables = (self.programs / "share" / "mariadb_system_tables.sql").read_text(encoding="utf-8")
        name = f"{USER}@'{HOST}'"
        # The only account. It owns its database; RELOAD and the following privileges read the log for change data
        # capture. It is not an administrator, who could read and write the server's files.
        accounts = (
            f"FLUSH PRIVILEGES;\nCREATE DATABASE {DATABASE};\n"
            f"CREATE USER {name} IDENTIFIED BY '{account.password}';\n"
            f"GRANT ALL ON {DATABASE}.* TO {name};\n"
            f"GRANT RELOAD, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {name};\n"
        )
        done = subprocess.run(
            [*self._command(made), "--bootstrap"],
            cwd=made,
            env=_environment(),
            input=f"CREATE DATABASE mysql;\nUSE mysql;\n{tables}\n{accounts}",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0 or "ERROR" in done.stdout:
            raise StackError(f"cannot create the data of MariaDB: {done.stdout.strip()[-2000:]}")
        made.rename(self._data)


def require_programs(cache: Path) -> Path:
    """The folder of MariaDB's programs, downloaded if it is missing."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise StackError(
            "the local MariaDB runs only on Linux on x86-64",
            hint="set mariadb to the address of an external server: mariadb://user:password@host:port/database",
        )
    (program,) = artifacts.folder("mariadb", cache=cache).glob("**/bin/mariadbd")
    return program.parents[1]


def is_ready(port: int, *, timeout: float = 2.0) -> bool:
    """Whether the server at this port sends its greeting, as it does once it accepts connections."""
    try:
        with socket.create_connection((HOST, port), timeout=timeout) as connection:
            # Three bytes of length, the sequence number, and the protocol version.
            return connection.recv(5)[4:] == bytes([_PROTOCOL])
    except OSError:
        return False


def _environment() -> dict[str, str]:
    # Not inherited: a MYSQL_HOME or MYSQL_TCP_PORT is meant for another server of the user.
    return {"LC_ALL": "C", "PATH": os.defpath}
