"""Builds the Debezium configuration of a change capture's connector."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping

from gearshift.definitions import ChangeCapture
from gearshift.schemas.debezium.events import EPOCH_FIELD
from gearshift.sources.cdc.databases import Database

TABLES = "table.include.list"
EPOCH = "transforms.epoch.static.value"
"""The configuration key of a connector's epoch: the microsecond in which its snapshot began."""
IDENTITY = "gearshift.identity"
"""The configuration key for the log that the connector reads; Debezium ignores it."""
TOPIC_IDS = "gearshift.topics"
"""The configuration key for the ids of its topics: a topic that is deleted and created again has another id."""


def connector_config(
    capture: ChangeCapture,
    database: Database,
    password: str,
    *,
    epoch: int = 0,
    history: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Debezium's configuration for this capture; `password` is a reference and never the password itself.

    `history` has the properties with which the MariaDB connector connects to Kafka, where it stores table schemas.
    """
    converter = "org.apache.kafka.connect.json.JsonConverter"
    of_kind = _postgres(capture) if database.kind == "postgres" else _mariadb(capture, epoch, history or {})
    return {
        "database.hostname": database.host,
        "database.port": str(database.port),
        "database.user": database.user,
        "database.password": password,
        "database.dbname": database.name,
        **of_kind,
        "topic.prefix": prefix(capture),
        # Without a tag, two connectors with the same prefix in one Connect would share their metrics.
        "custom.metric.tags": f"capture={capture.connector}",
        # Debezium treats names as regular expressions.
        TABLES: ",".join(re.escape(table) for table in capture.topics),
        # Debezium would retry without limit, while Connect reports the connector as running.
        "errors.max.retries": "2",
        "retriable.restart.connector.wait.ms": "1000",
        # Truncates are skipped by default.
        "skipped.operations": "none",
        # Records carry no Connect schema, so values must be self-describing.
        "decimal.handling.mode": "string",
        "time.precision.mode": "isostring",
        "key.converter": converter,
        "key.converter.schemas.enable": "false",
        "value.converter": converter,
        "value.converter.schemas.enable": "false",
        # Log positions go back when a database is restored. With the epoch in each record, the order of the topic is
        # the order of the changes.
        "transforms": "epoch",
        "transforms.epoch.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.epoch.static.field": EPOCH_FIELD,
        EPOCH: str(epoch),
        "poll.interval.ms": "50",
        # Without heartbeats the database would keep its log while only other tables change.
        "heartbeat.interval.ms": "10000",
        # For its internal topics; -1 is the broker's default.
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "-1",
    }


def prefix(capture: ChangeCapture) -> str:
    """The prefix of its topic names, before the table name."""
    table, topic = next(iter(capture.topics.items()))
    return topic.name.removesuffix(f".{table}")


def _postgres(capture: ChangeCapture) -> dict[str, str]:
    whole = [re.escape(table) for table, topic in capture.topics.items() if topic.before]
    # Whole rows before the change, including large values that an update leaves unchanged.
    identity = {"replica.identity.autoset.values": ",".join(f"{table}:FULL" for table in whole)}
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "slot.name": capture.slot,
        "publication.name": capture.slot,
        "publication.autocreate.mode": "filtered",
        # A slot in use is reported after seconds instead of a minute; the capture restarts the connector.
        "slot.max.retries": "3",
        "slot.retry.delay.ms": "1000",
        **(identity if whole else {}),
    }


def _mariadb(capture: ChangeCapture, epoch: int, kafka: Mapping[str, str]) -> dict[str, str]:
    history = "schema.history.internal"
    return {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        # Every reader of the log needs a unique id.
        "database.server.id": str(1 + zlib.crc32(capture.connector.encode()) % ((1 << 32) - 2)),
        # Numbers above 2^63 - 1 would become negative.
        "bigint.unsigned.handling.mode": "precise",
        # Reconnect after this time instead of a minute.
        "connect.keep.alive.interval.ms": "2000",
        "include.schema.changes": "false",
        # A new topic per epoch: schemas of an earlier log would be wrong.
        f"{history}.kafka.topic": f"{capture.connector}.schemas.{epoch}",
        f"{history}.store.only.captured.tables.ddl": "true",
        **{f"{history}.{name}": value for name, value in kafka.items()},
    }
