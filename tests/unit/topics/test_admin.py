"""What an admin makes of the brokers' answers."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from gearshift.connection import Connection
from gearshift.errors import SettingsError
from gearshift.topics import Admin

NOBODY = Connection(bootstrap_servers="127.0.0.1:1", registry_url="http://127.0.0.1:1")


def answered(code: int) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(KafkaException(KafkaError(code)))
    return future


@pytest.mark.parametrize("code", [KafkaError.LEADER_NOT_AVAILABLE, KafkaError._NOENT])
def test_a_partition_without_a_leader_is_asked_for_again(code: int) -> None:
    with Admin(NOBODY) as admin:
        assert admin._offset(answered(code), "readings") is None


def test_what_does_not_pass_is_an_error() -> None:
    with Admin(NOBODY) as admin, pytest.raises(SettingsError):
        admin._offset(answered(KafkaError.TOPIC_AUTHORIZATION_FAILED), "readings")
