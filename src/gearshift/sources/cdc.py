"""Change data capture: the connector of a declaration, put to Connect, watched, and restarted when it fails."""

from __future__ import annotations

import itertools
import logging
import os
import re
import threading
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from gearshift.connection import Connection
from gearshift.definitions import ChangeCapture, Retry
from gearshift.errors import ConnectError, SettingsError
from gearshift.settings import Settings
from gearshift.sources.connect import Connect, ConnectorStatus
from gearshift.stack import find_service
from gearshift.stack.connect_worker import secrets_folder
from gearshift.stack.stack import folder
from gearshift.topics import Admin

log = logging.getLogger(__name__)

LOOKS_EVERY = timedelta(seconds=1)
_TABLES = "table.include.list"
_AGAIN = Retry(first=timedelta(seconds=1), longest=timedelta(seconds=15))


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """Where a PostgreSQL answers, as a connector needs to know it."""

    host: str
    port: int
    name: str
    user: str
    password: str | None = field(default=None, repr=False)

    @classmethod
    def read(cls, dsn: str) -> Database:
        """The database of an address; its password may be in the address or in the passfile that it names.

        >>> Database.read("postgresql://ann:secret@db:5433/food")
        Database(host='db', port=5433, name='food', user='ann')
        """
        try:
            parts = urlsplit(dsn)
            port = parts.port or 5432
        except ValueError:
            raise _no_address() from None
        if parts.scheme not in ("postgresql", "postgres") or not parts.hostname or not parts.username:
            raise _no_address()
        user, name = unquote(parts.username), unquote(parts.path.lstrip("/")) or unquote(parts.username)
        password = unquote(parts.password) if parts.password is not None else None
        passfile = parse_qs(parts.query).get("passfile")
        if password is None and passfile:
            password = _from_passfile(Path(passfile[0]), user)
        return cls(host=parts.hostname, port=port, name=name, user=user, password=password)


class Capture:
    """Keeps one change capture's connector as declared and running, until it is closed; Connect does the work."""

    def __init__(self, capture: ChangeCapture, settings: Settings, connection: Connection) -> None:
        self.capture = capture
        self.error: str | None = None
        self.last: ConnectorStatus | None = None
        """How the connector was when it was last looked at."""
        self.restarts = 0
        self._settings = settings
        self._connection = connection
        self._connect = Connect(find_service("connect", settings).get_secret_value())
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"capture {capture.name}", daemon=True)

    def open(self) -> None:
        """Create the topics, create or update the connector, and begin to watch it."""
        database = Database.read(find_service("postgres", self._settings).get_secret_value())
        with Admin(self._connection) as admin:
            admin.ensure(self.capture.topics.values())
        password = self.capture.password or self._hidden(database)
        self._connect.put(self.capture.connector, connector_config(self.capture, database, password))
        self._thread.start()

    def close(self) -> None:
        """Watch no more; the connector goes on for as long as its Connect runs."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=60)
        self._connect.close()

    def delete(self) -> None:
        """Take the connector away, so that nobody reads the slot; it goes on from there when it is created again."""
        self._connect.delete(self.capture.connector)

    @property
    def running(self) -> bool:
        """Whether somebody watches the connector."""
        return self._thread.is_alive()

    def status(self) -> ConnectorStatus | None:
        """How the connector is now."""
        return self._connect.status(self.capture.connector)

    def _hidden(self, database: Database) -> str:
        """Put the password where the local Connect finds it; the place, as a connector's configuration says it."""
        if self._settings.connect_url is not None:
            raise SettingsError(
                f"change capture {self.capture.name} does not say where your Connect finds the database's password",
                hint="say password='${env:NAME}' in app.cdc, as a config.providers entry of that Connect has it",
                file=self.capture.defined_at.file,
                line=self.capture.defined_at.line,
            )
        if database.password is None:
            raise SettingsError(
                "the setting postgres has no password", hint="postgresql://user:password@host:port/database"
            )
        file = secrets_folder(folder(self._settings) / "connect") / f"{self.capture.connector}.properties"
        made = file.with_suffix(".new")
        made.unlink(missing_ok=True)
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as secret:
            secret.write(f"password={_escaped(database.password)}\n")
        made.replace(file)
        return f"${{file:{file}:password}}"

    def _watch(self) -> None:
        wait = _AGAIN.first
        while not self._closing.wait(LOOKS_EVERY.total_seconds()):
            try:
                status = self.last = self._connect.status(self.capture.connector)
                failure = self._failure(status)
                if failure is None:
                    self.error, wait = None, _AGAIN.first
                    continue
                self._tell(failure)
                if self._closing.wait(wait.total_seconds()):
                    return
                wait = min(wait * 2, _AGAIN.longest)
                self._connect.restart_failed(self.capture.connector)
                self.restarts += 1
            except ConnectError as error:
                self.last = None
                self._tell(error)

    def _failure(self, status: ConnectorStatus | None) -> ConnectError | None:
        if status is None:
            if self._connect.config(self.capture.connector) is not None:
                return None  # a worker that has just started knows the connector before it knows how it is
            return ConnectError(
                f"connector {self.capture.connector} was deleted", hint="start the app again to create it"
            )
        return status.failure

    def _tell(self, error: ConnectError) -> None:
        said = str(error)
        if said != self.error:
            log.error("change capture %s: %s", self.capture.name, said)
        self.error = said


def parts(capture: ChangeCapture, settings: Settings) -> list[ChangeCapture]:
    """A capture as its connectors share it: tables that joined later have one of their own.

    Debezium sends the rows that a table has when its connector is created, and to one that exists no table can be
    added with its rows.
    """
    connect = Connect(find_service("connect", settings).get_secret_value())
    found: list[ChangeCapture] = []
    left = dict(capture.topics)
    try:
        for part in itertools.count(1):
            suffix = "" if part == 1 else f".part{part}"
            known = connect.config(capture.connector + suffix)
            has = None if known is None else known.get(_TABLES, "").split(",")
            topics = {table: topic for table, topic in left.items() if has is None or re.escape(table) in has}
            if topics:
                names = {"name": capture.name + suffix, "connector": capture.connector + suffix}
                found.append(replace(capture, topics=topics, **names))
            left = {table: topic for table, topic in left.items() if table not in topics}
            if not left:
                break
    finally:
        connect.close()
    return found


def connector_config(capture: ChangeCapture, database: Database, password: str) -> dict[str, str]:
    """Debezium's configuration for this capture; `password` is a reference and never the password itself."""
    converter = "org.apache.kafka.connect.json.JsonConverter"
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": database.host,
        "database.port": str(database.port),
        "database.dbname": database.name,
        "database.user": database.user,
        "database.password": password,
        "topic.prefix": _prefix(capture),
        # Two connectors of one prefix in one Connect would take each other's metrics for their own.
        "custom.metric.tags": f"capture={capture.connector}",
        # Debezium reads names as patterns.
        _TABLES: ",".join(re.escape(table) for table in capture.topics),
        "slot.name": capture.slot,
        "publication.name": capture.slot,
        "publication.autocreate.mode": "filtered",
        # A slot in use is told after seconds instead of a minute; whoever watches the connector tries again.
        "slot.max.retries": "3",
        "slot.retry.delay.ms": "1000",
        # Debezium would try for ever by itself, and Connect call that running.
        "errors.max.retries": "2",
        "retriable.restart.connector.wait.ms": "1000",
        **_identity(capture),
        # Truncates are left out unless asked for.
        "skipped.operations": "none",
        # Without Connect's schema in every record a value has to say itself what it is.
        "decimal.handling.mode": "string",
        "time.precision.mode": "isostring",
        "key.converter": converter,
        "key.converter.schemas.enable": "false",
        "value.converter": converter,
        "value.converter.schemas.enable": "false",
        "poll.interval.ms": "50",
        # While these tables are quiet and others are not, the slot would keep the database's log for ever.
        "heartbeat.interval.ms": "10000",
        # Its own small topics; -1 is the broker's default.
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "-1",
    }


def _prefix(capture: ChangeCapture) -> str:
    """What comes before the table in the names of its topics."""
    table, topic = next(iter(capture.topics.items()))
    return topic.name.removesuffix(f".{table}")


def _identity(capture: ChangeCapture) -> dict[str, str]:
    """Have PostgreSQL send whole rows as they were, for the tables that are declared so."""
    whole = [re.escape(table) for table, topic in capture.topics.items() if topic.before]
    return {"replica.identity.autoset.values": ",".join(f"{table}:FULL" for table in whole)} if whole else {}


def _no_address() -> SettingsError:
    return SettingsError(
        "the setting postgres is no address that change capture understands",
        hint="postgresql://user:password@host:port/database",
    )


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


def _escaped(secret: str) -> str:
    """As Java's properties files have it: everything but letters and digits as an escape."""
    units = secret.encode("utf-16-be")
    codes = [int.from_bytes(units[place : place + 2], "big") for place in range(0, len(units), 2)]
    return "".join(chr(code) if code < 128 and chr(code).isalnum() else f"\\u{code:04x}" for code in codes)
