"""The databases that changes are captured from: their addresses and the ends of their logs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

from gearshift.definitions import DatabaseKind
from gearshift.errors import DefinitionError, SettingsError

_SCHEMES: Mapping[DatabaseKind, tuple[str, ...]] = {
    "postgres": ("postgresql", "postgres"),
    "mariadb": ("mariadb", "mysql"),
}
_PORTS: Mapping[DatabaseKind, int] = {"postgres": 5432, "mariadb": 3306}
_TIMEOUT = 5
_POSITION = (
    # The log's file name begins with the timeline, which a promoted or restored server increments.
    "SELECT (SELECT system_identifier FROM pg_control_system()) || '/' || left(pg_walfile_name(lsn), 8),"
    " (lsn - '0/0')::bigint FROM pg_current_wal_lsn() lsn"
)


# Debezium 3.5 reads wrong digits of a uuid from the log, and nothing for a negative time.
_MISREAD = (
    "SELECT column_name, data_type FROM information_schema.columns"
    " WHERE concat(table_schema, '.', table_name) = %s AND data_type IN ('uuid', 'time')"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The identity and end of a database's log."""

    identity: str = ""
    """Changes when a standby is promoted or a backup restored; empty for MariaDB."""
    lsn: int = 0
    """PostgreSQL's end position."""
    files: Mapping[str, int] = field(default_factory=dict[str, int])
    """MariaDB's log files, with their sizes."""
    gtids: Mapping[str, int] = field(default_factory=dict[str, int])
    """MariaDB's last transaction in each domain."""
    started: int = 0
    """When MariaDB started, in seconds since the epoch."""
    gtids_then: Mapping[str, int] | None = None
    """MariaDB's last transaction in each domain when its current log file began, at its start or later."""

    def reaches(self, offset: Mapping[str, Any]) -> bool:
        """Whether a connector's source offset is in this log.

        >>> LogEnd(lsn=7).reaches({"lsn": 7}), LogEnd(lsn=7).reaches({"lsn": 8})
        (True, False)
        >>> end = LogEnd(files={"binlog.000002": 400}, gtids={"0": 12})
        >>> end.reaches({"file": "binlog.000001", "pos": 900, "gtids": "0-1-12"})
        True
        >>> restored = LogEnd(gtids={"0": 12}, started=1000, gtids_then={"0": 11})
        >>> [restored.reaches({"gtids": "0-1-12", "ts_sec": second}) for second in (999, 1000)]
        [False, True]
        >>> end.reaches({"file": "binlog.000002", "pos": 400}), end.reaches({"file": "binlog.000001", "pos": 4})
        (True, False)
        """
        if "lsn" in offset:
            return int(offset["lsn"]) <= self.lsn
        read = gtids(str(offset.get("gtids") or ""))
        if read:  # GTIDs identify transactions regardless of files and servers
            ends = [self.gtids]
            if self.gtids_then is not None and int(offset.get("ts_sec") or self.started) < self.started:
                # Numbers of lost transactions are reused, but this one was read before the server started.
                ends.append(self.gtids_then)
            return all(number <= end.get(domain, 0) for end in ends for domain, number in read.items())
        return "file" not in offset or int(offset.get("pos", 0)) <= self.files.get(str(offset["file"]), -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """The address and credentials of a database, as a connector needs them."""

    kind: DatabaseKind = "postgres"
    host: str
    port: int
    name: str
    user: str
    password: str | None = field(default=None, repr=False)

    @classmethod
    def read(cls, address: str, kind: DatabaseKind = "postgres") -> Database:
        """Parse an address; the password may be in the address or in the passfile that it names.

        >>> Database.read("postgresql://ann:secret@db:5433/food")
        Database(kind='postgres', host='db', port=5433, name='food', user='ann')
        """
        try:
            parts = urlsplit(address)
            port = parts.port or _PORTS[kind]
        except ValueError:
            raise _no_address(kind) from None
        if parts.scheme not in _SCHEMES[kind] or not parts.hostname or not parts.username:
            raise _no_address(kind)
        user, name = unquote(parts.username), unquote(parts.path.lstrip("/")) or unquote(parts.username)
        password = unquote(parts.password) if parts.password is not None else None
        passfile = parse_qs(parts.query).get("passfile")
        if password is None and passfile:
            password = _from_passfile(Path(passfile[0]), user)
        return cls(kind=kind, host=parts.hostname, port=port, name=name, user=user, password=password)

    def log_end(self) -> LogEnd:
        """Query the end of the log; OSError if the database is not reachable."""
        return self._postgres_end() if self.kind == "postgres" else self._mariadb_end()

    def misread(self, table: str) -> dict[str, str]:
        """The columns of a table that Debezium's connector reads wrongly, with their types."""
        if self.kind != "mariadb":
            return {}
        rows = self._query_mariadb(_MISREAD, (table,))
        return {str(row[0]): str(row[1]) for row in rows}

    def _postgres_end(self) -> LogEnd:
        psycopg = _driver("psycopg", "postgres")
        try:
            with psycopg.connect(
                host=self.host,
                port=self.port,
                dbname=self.name,
                user=self.user,
                password=self.password,
                connect_timeout=_TIMEOUT,
                autocommit=True,
            ) as connection:
                identity, lsn = connection.execute(_POSITION).fetchone()
        except psycopg.Error as error:
            raise OSError(f"cannot read the log position of PostgreSQL: {type(error).__name__}") from None
        return LogEnd(identity=identity, lsn=lsn)

    def _mariadb_end(self) -> LogEnd:
        files = {str(row[0]): int(row[1]) for row in self._query_mariadb("SHOW BINARY LOGS")}
        ((position, started),) = self._query_mariadb(
            "SELECT @@gtid_binlog_pos, unix_timestamp() - variable_value"
            " FROM information_schema.global_status WHERE variable_name = 'UPTIME'"
        )
        events = self._query_mariadb("SHOW BINLOG EVENTS IN %s LIMIT 3", (max(files),)) if files else []
        then = next((gtids(str(event[5]).strip("[]")) for event in events if event[2] == "Gtid_list"), None)
        return LogEnd(files=files, gtids=gtids(str(position)), started=int(float(started)), gtids_then=then)

    def _query_mariadb(self, query: str, values: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
        pymysql = _driver("pymysql", "mariadb")
        try:
            with (
                pymysql.connect(
                    host=self.host,
                    port=self.port,
                    user=self.user,
                    password=self.password or "",
                    connect_timeout=_TIMEOUT,
                    read_timeout=_TIMEOUT,
                ) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute(query, values)
                return list(cursor.fetchall())
        except pymysql.err.MySQLError as error:
            raise OSError(f"cannot query MariaDB: {type(error).__name__}") from None


def gtids(text: str) -> dict[str, int]:
    """The last transaction of each domain in a MariaDB GTID list.

    >>> gtids("0-1-12,3-1-4")
    {'0': 12, '3': 4}
    """
    return {
        domain: int(number)
        for domain, number in re.findall(r"(?:^|,)\s*([0-9]+)-[0-9]+-([0-9]+)(?=\s*(?:,|$))", text)
    }


def _driver(module: str, extra: str) -> Any:
    try:
        return cast("Any", import_module(module))
    except ImportError:
        raise DefinitionError(
            f"change capture needs the driver {module}, which is not installed",
            hint=f"pip install 'gearshift[{extra}]'",
        ) from None


def _no_address(kind: DatabaseKind) -> SettingsError:
    return SettingsError(
        f"the setting {kind} is not a valid database address", hint=f"use the form {example(kind)}"
    )


def example(kind: DatabaseKind) -> str:
    """An example of this setting."""
    return f"{_SCHEMES[kind][0]}://user:password@host:port/database"


def _from_passfile(file: Path, user: str) -> str | None:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        parts = re.split(r"(?<!\\):", line, maxsplit=4)
        if len(parts) == 5 and parts[3] in (user, "*"):
            return re.sub(r"\\(.)", r"\1", parts[4])
    return None
