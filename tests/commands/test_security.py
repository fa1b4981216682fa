"""Who is let in: every socket of the local stack has a loopback address and a lock."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from gearshift.connection import Connection
from tests.support import librdkafka

SILENT = logging.getLogger("tests.security")


def test_kafka_lets_nobody_in_without_the_password(connection: Connection) -> None:
    kafka = librdkafka(connection)
    for given in ({}, {**kafka, "sasl.password": "wrong"}):
        stranger = AdminClient({**given, "bootstrap.servers": connection.bootstrap_servers}, logger=SILENT)
        with pytest.raises(KafkaException):
            stranger.list_topics(timeout=2)
    assert AdminClient(kafka).list_topics(timeout=10).brokers
