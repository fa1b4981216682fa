"""Client properties under the names of both Kafka clients."""

from __future__ import annotations

import pytest

from gearshift.connection import Connection
from gearshift.errors import SettingsError
from gearshift.topics import Admin
from gearshift.topics.client import Client
from gearshift.topics.properties import for_java, for_librdkafka


def test_java_names_become_librdkafkas_and_back() -> None:
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="a\\"b";'
    java = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas}
    ours = for_librdkafka(java)
    assert ours["sasl.username"] == "me"
    assert ours["sasl.password"] == 'a"b'
    assert "sasl.jaas.config" not in ours
    assert for_java(ours) == java


def test_a_pem_truststore_is_librdkafkas_ca() -> None:
    java = {"ssl.truststore.location": "/ca.pem", "ssl.truststore.type": "PEM"}
    assert for_librdkafka(java) == {"ssl.ca.location": "/ca.pem"}
    assert for_java({"ssl.ca.location": "/ca.pem"}) == java


def test_a_truststore_that_is_not_pem_is_an_error() -> None:
    with pytest.raises(SettingsError, match="must be a PEM file"):
        for_librdkafka({"ssl.truststore.location": "/ca.jks"})


def test_a_jaas_line_without_a_password_is_an_error_that_does_not_show_it() -> None:
    with pytest.raises(SettingsError) as raised:
        for_librdkafka({"sasl.jaas.config": 'Module required username="me" secret="hunter2";'})
    assert "hunter2" not in str(raised.value)


def test_an_unknown_property_is_an_error_that_does_not_show_its_value() -> None:
    for name, value in (("sasl.fancy", "hunter2"), ("security.protocol", "hunter2")):
        connection = Connection(bootstrap_servers="kafka.example:9093", registry_url="", kafka={name: value})
        with pytest.raises(SettingsError) as raised:
            Admin(connection)
        assert name in str(raised.value)
        assert "hunter2" not in str(raised.value)


def test_a_users_properties_override_ours_and_are_not_shown() -> None:
    connection = Connection(
        bootstrap_servers="kafka.example:9093",
        registry_url="",
        kafka={"client.id": "mine", "sasl.password": "hunter2"},
    )
    client = Client(connection, linger_ms=5)
    assert client.properties["client.id"] == "mine"
    assert client.properties["linger.ms"] == 5
    assert "broker.address.family" not in client.properties
    assert "hunter2" not in str(client.unreachable())
    assert "check bootstrap_servers" in str(client.unreachable())
