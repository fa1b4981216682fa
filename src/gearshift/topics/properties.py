"""Translates client properties between librdkafka's names and those of Kafka's Java client. Pure.

Users write either; our clients need librdkafka's names and Spark needs Java's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gearshift.errors import SettingsError

_JAAS_VALUE = r'{name}\s*=\s*"((?:[^"\\]|\\.)*)"'
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def for_librdkafka(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties under librdkafka's names.

    >>> jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="pw";'
    >>> for_librdkafka({"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas})
    {'sasl.mechanism': 'PLAIN', 'sasl.username': 'me', 'sasl.password': 'pw'}
    """
    known = dict(properties)
    jaas = known.pop("sasl.jaas.config", None)
    if jaas is not None:
        known["sasl.username"] = _from_jaas(jaas, "username")
        known["sasl.password"] = _from_jaas(jaas, "password")
    kind = known.pop("ssl.truststore.type", None)
    truststore = known.pop("ssl.truststore.location", None)
    if truststore is not None:
        if kind != "PEM":
            raise SettingsError(
                "kafka.ssl.truststore.location must be a PEM file",
                hint='set ssl.ca.location, or a PEM file with ssl.truststore.type = "PEM"',
            )
        known["ssl.ca.location"] = truststore
    if known.get("ssl.endpoint.identification.algorithm") == "":
        known["ssl.endpoint.identification.algorithm"] = "none"
    return known


def for_java(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties under the names of Kafka's Java client, which Spark uses.

    >>> for_java({"sasl.mechanisms": "PLAIN", "sasl.username": "me", "sasl.password": "pw"})["sasl.jaas.config"]
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="pw";'
    """
    known = dict(properties)
    mechanism = known.pop("sasl.mechanisms", None)
    if mechanism is not None:
        known["sasl.mechanism"] = mechanism
    user, password = known.pop("sasl.username", None), known.pop("sasl.password", None)
    if user is not None and password is not None and "sasl.jaas.config" not in known:
        module = _SCRAM if known.get("sasl.mechanism", "").startswith("SCRAM") else _PLAIN
        known["sasl.jaas.config"] = (
            f'{module} required username="{_quoted(user)}" password="{_quoted(password)}";'
        )
    ca = known.pop("ssl.ca.location", None)
    if ca is not None:
        known["ssl.truststore.location"] = ca
        known["ssl.truststore.type"] = "PEM"
    if known.get("ssl.endpoint.identification.algorithm") == "none":
        known["ssl.endpoint.identification.algorithm"] = ""
    known.pop("broker.address.family", None)
    return known


def _from_jaas(jaas: str, name: str) -> str:
    found = re.search(_JAAS_VALUE.format(name=name), jaas)
    if found is None:
        raise SettingsError(
            f"kafka.sasl.jaas.config has no {name}", hint="set sasl.username and sasl.password instead"
        )
    return re.sub(r"\\(.)", r"\1", found[1])


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
