"""Runs the Debezium connector of a change capture: creates it in Connect, monitors it, and restarts it with backoff."""

from __future__ import annotations

import itertools
import json
import logging
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

from gearshift.backoff import Backoff
from gearshift.connection import Connection
from gearshift.definitions import ChangeCapture
from gearshift.errors import ConnectError, DefinitionError, GearshiftError, SettingsError
from gearshift.schemas.debezium.events import EPOCH_FIELD
from gearshift.settings import Settings
from gearshift.sources.cdc.connect_api import PAUSED, STOPPED, Connect, ConnectorStatus
from gearshift.sources.cdc.connector_config import EPOCH, IDENTITY, TABLES, TOPIC_IDS, connector_config
from gearshift.sources.cdc.databases import Database, LogEnd, example
from gearshift.stack import find_service
from gearshift.stack.services.connect import secrets_folder
from gearshift.stack.services.kafka_login import superuser_of
from gearshift.stack.stack import stack_folder
from gearshift.storage.shared_files import write_whole
from gearshift.topics import Admin, Producer

log = logging.getLogger(__name__)

CHECK_INTERVAL = timedelta(seconds=1)
_LOG_CHECK_EVERY = 3  # checks of the connector per check of the database's log
_STOPS_WITHIN = timedelta(seconds=60)
_FIRST_BACKOFF = timedelta(seconds=1)
_LONGEST_BACKOFF = timedelta(seconds=15)
_WENT_BACK = "the database's log went back, as it does after a restore"


class Capture:
    """Keeps the connector of one change capture configured as declared and running, until it is closed."""

    def __init__(self, capture: ChangeCapture, settings: Settings, connection: Connection) -> None:
        self.capture = capture
        self.error: str | None = None
        self.last: ConnectorStatus | None = None
        """The status of the connector at the last check."""
        self.restarts = 0
        self._settings = settings
        self._connection = connection
        self._connect = Connect(find_service("connect", settings).get_secret_value())
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"capture {capture.name}", daemon=True)

    def open(self) -> None:
        """Create the topics, create or update the connector, and start monitoring it."""
        with Admin(self._connection) as admin:
            admin.ensure(self.capture.topics.values())
        name = self.capture.connector
        known = self._connect.config(name)
        self._refuse_misread()
        end = self._log_end()
        if known is None:
            # It is started only after its offsets show whether it resumes or takes a snapshot.
            epoch = time.time_ns() // 1000
            self._connect.create_stopped(name, self._config(epoch, end))
            offsets = self._connect.offsets(name)
            if not offsets:
                self._begin(epoch)
            elif self.capture.database == "mariadb":
                self._begin_again("its connector was deleted, with the table schemas that the log needs", end)
            elif end is not None and not all(end.reaches(offset) for offset in offsets):
                self._begin_again(_WENT_BACK, end)
            else:
                self._connect.resume(name)
        else:
            again = self._why_again(known, end) or self._other_topics(known)
            if again is None:
                identity = known.get(IDENTITY) or None
                self._connect.put(name, self._config(int(known.get(EPOCH) or 0), end, identity))
            else:
                self._begin_again(again, end)
        self._thread.start()

    def close(self) -> None:
        """Stop monitoring; the connector keeps running in Connect."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=60)
        self._connect.close()

    def delete(self) -> None:
        """Delete the connector, so that its replication slot is no longer read.

        When it is created again, one for PostgreSQL resumes there, and one for MariaDB takes a new snapshot.
        """
        self._connect.delete(self.capture.connector)

    @property
    def running(self) -> bool:
        """Whether the connector is being monitored."""
        return self._thread.is_alive()

    def status(self) -> ConnectorStatus | None:
        """The current status of the connector."""
        return self._connect.status(self.capture.connector)

    @property
    def _ordered(self) -> bool:
        """Whether each topic has one partition, whose order is the order of the changes."""
        return all(topic.partitions == 1 for topic in self.capture.topics.values())

    @property
    def _database(self) -> Database:
        kind = self.capture.database
        return Database.read(find_service(kind, self._settings).get_secret_value(), kind)

    def _config(self, epoch: int, end: LogEnd | None, identity: str | None = None) -> dict[str, str]:
        database = self._database
        password = self.capture.password or self._hidden("password", self._require_password(database))
        return {
            **connector_config(
                self.capture,
                database,
                password,
                epoch=epoch,
                history=self._history() if database.kind == "mariadb" else None,
            ),
            IDENTITY: identity or (end.identity if end is not None else ""),
            TOPIC_IDS: ",".join(sorted(self._topic_ids())),
        }

    def _log_end(self) -> LogEnd | None:
        """The end of the database's log; None if it cannot be read from here."""
        database = self._database
        if database.password is None:
            return None
        try:
            return database.log_end()
        except OSError as error:
            log.debug("change capture %s: %s", self.capture.name, error)
            return None

    def _refuse_misread(self) -> None:
        database, where = self._database, self.capture.defined_at
        for table, topic in self.capture.topics.items() if database.password is not None else ():
            try:
                misread = database.misread(table)
            except OSError:
                return  # the connector reports a database that is not reachable
            for field in fields(topic.value):
                if field.name in misread:
                    raise DefinitionError(
                        f"change capture {self.capture.name}: Debezium misreads {table}.{field.name}, "
                        f"whose type is {misread[field.name]}",
                        hint=f"remove it from {topic.value.__name__}, or change the column's type to char or bigint",
                        file=where.file,
                        line=where.line,
                    )

    def _why_again(self, known: Mapping[str, str], end: LogEnd | None) -> str | None:
        """Why the connector cannot resume at its offsets; None if it can."""
        offsets = self._connect.offsets(self.capture.connector)
        if not offsets:
            # A connector is stopped until its start is complete: the last start was interrupted.
            status = self._connect.status(self.capture.connector)
            return "its snapshot had not begun" if status is not None and status.state == STOPPED else None
        if EPOCH not in known and self._ordered:
            return "an earlier version of Gearshift created it"
        if end is None:
            return None
        if known.get(IDENTITY) and end.identity != known[IDENTITY]:
            return "the database was restored or failed over, and writes another log"
        if not all(end.reaches(offset) for offset in offsets):
            # The connector may have read on since the database was asked, so ask again.
            later = self._log_end()
            if later is not None and not all(later.reaches(offset) for offset in offsets):
                return _WENT_BACK
        return None

    def _topic_ids(self) -> set[str]:
        with Admin(self._connection) as admin:
            states = admin.describe([topic.name for topic in self.capture.topics.values()])
        return {state.id for state in states.values()}

    def _other_topics(self, known: Mapping[str, str]) -> str | None:
        lost = set(known.get(TOPIC_IDS, "").split(",")) - {""} - self._topic_ids()
        return "one of its topics was deleted and created again" if lost else None

    def _begin_again(self, why: str, end: LogEnd | None) -> None:
        """Take a new snapshot in a new epoch, which replaces everything in a copy."""
        name, capture = self.capture.connector, self.capture
        if not self._ordered:
            # Changes are then ordered by their position in the log, and the new positions may be lower.
            raise ConnectError(
                f"connector {name} cannot resume: {why}",
                hint="delete its topics, which have several partitions, and their tables, then restart the app",
            )
        log.warning("change capture %s takes a new snapshot: %s", capture.name, why)
        self._connect.stop(name, within=_STOPS_WITHIN)
        self._connect.delete_offsets(name)
        before = int((self._connect.config(name) or {}).get(EPOCH) or 0)
        epoch = max(time.time_ns() // 1000, before + 1)  # later, even where the clock was set back
        self._connect.put(name, self._config(epoch, end))
        self._begin(epoch)

    def _begin(self, epoch: int) -> None:
        """Send a truncate to each topic that has records, and let the connector take its snapshot."""
        topics = [topic.name for topic in self.capture.topics.values()]
        with Admin(self._connection) as admin:
            used = {topic for (topic, _), offset in admin.end_offsets(topics).items() if offset}
        truncate: dict[str, Any] = {"op": "t", "source": {}, "ts_ms": epoch // 1000}
        with Producer(self._connection) as producer:
            for topic in sorted(used):
                producer.send_bytes(topic, json.dumps({**truncate, EPOCH_FIELD: str(epoch)}).encode())
        self._connect.resume(self.capture.connector)

    def _history(self) -> dict[str, str]:
        """The properties with which the connector connects to Kafka, where it stores the table schemas of the log."""
        opens: dict[str, str] = {}
        if self._settings.bootstrap_servers is None:
            opens = superuser_of(stack_folder(self._settings) / "kafka").java_properties()
            opens["sasl.jaas.config"] = self._hidden("jaas", opens["sasl.jaas.config"])
        elif self._connection.kafka:
            raise SettingsError(
                f"change capture {self.capture.name}: a connector for MariaDB cannot connect to a Kafka that requires a password or TLS",
                hint="create the connector yourself, and read its topics with app.topic(…, envelope='debezium')",
            )
        return {
            "kafka.bootstrap.servers": self._connection.bootstrap_servers,
            **{
                f"{client}.{name}": value
                for client in ("producer", "consumer")
                for name, value in opens.items()
            },
        }

    def _require_password(self, database: Database) -> str:
        if self._settings.connect_url is not None:
            raise SettingsError(
                f"change capture {self.capture.name} names no password that an external Connect can resolve",
                hint="set password='${env:NAME}' in app.cdc, for a config provider of that Connect",
                file=self.capture.defined_at.file,
                line=self.capture.defined_at.line,
            )
        if database.password is None:
            raise SettingsError(
                f"the setting {database.kind} has no password", hint=f"use the form {example(database.kind)}"
            )
        return database.password

    def _hidden(self, name: str, secret: str) -> str:
        """Write a secret to a file of the local Connect; the reference to it for the connector's configuration."""
        file = (
            secrets_folder(stack_folder(self._settings) / "connect")
            / f"{self.capture.connector}.{name}.properties"
        )
        write_whole(file, f"{name}={_escaped(secret)}\n")
        return f"${{file:{file}:{name}}}"

    def _watch(self) -> None:
        backoff = Backoff(first=_FIRST_BACKOFF, longest=_LONGEST_BACKOFF)
        for check in itertools.count():
            if self._closing.wait(CHECK_INTERVAL.total_seconds()):
                return
            try:
                status = self.last = self._connect.status(self.capture.connector)
                if status is not None and status.state == PAUSED:
                    # A person paused it: it is neither restarted nor made to begin again.
                    self.error = None
                    backoff.reset()
                    continue
                failure = self._failure(status)
                if failure is not None or check % _LOG_CHECK_EVERY == 0:
                    self._check_log()
                if failure is None:
                    self.error = None
                    backoff.reset()
                    continue
                self._report(failure)
                if self._closing.wait(backoff.next().total_seconds()):
                    return
                self._connect.restart_failed(self.capture.connector)
                self.restarts += 1
            except GearshiftError as error:
                self.last = None
                self._report(error)

    def _check_log(self) -> None:
        """Take a new snapshot if the database's log is not the one that the connector has read."""
        end = self._log_end()
        known = self._connect.config(self.capture.connector) if end is not None else None
        if known is not None and (again := self._why_again(known, end)) is not None:
            self._begin_again(again, end)

    def _failure(self, status: ConnectorStatus | None) -> ConnectError | None:
        if status is None:
            if self._connect.config(self.capture.connector) is not None:
                return None  # a worker that has just started knows the connector before its status
            return ConnectError(
                f"connector {self.capture.connector} was deleted", hint="restart the app to create it"
            )
        return status.failure

    def _report(self, error: GearshiftError) -> None:
        message = str(error)
        if message != self.error:
            log.error("change capture %s: %s", self.capture.name, message)
        self.error = message


def parts(capture: ChangeCapture, settings: Settings) -> list[ChangeCapture]:
    """A capture split by connector: tables that were added later have another connector.

    Debezium takes a snapshot of a table when its connector is created; a table added to an existing connector would
    have none.
    """
    connect = Connect(find_service("connect", settings).get_secret_value())
    found: list[ChangeCapture] = []
    left = dict(capture.topics)
    try:
        for part in itertools.count(1):
            suffix = "" if part == 1 else f".part{part}"
            known = connect.config(capture.connector + suffix)
            captured = None if known is None else known.get(TABLES, "").split(",")
            topics = {
                table: topic
                for table, topic in left.items()
                if captured is None or re.escape(table) in captured
            }
            if topics:
                names = {"name": capture.name + suffix, "connector": capture.connector + suffix}
                found.append(replace(capture, topics=topics, **names))
            left = {table: topic for table, topic in left.items() if table not in topics}
            if not left:
                break
    finally:
        connect.close()
    return found


def _escaped(secret: str) -> str:
    """A value for a Java properties file, with everything but letters and digits escaped."""
    units = secret.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if code < 128 and chr(code).isalnum() else f"\\u{code:04x}" for code in codes)
