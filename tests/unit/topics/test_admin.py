"""How admin requests treat the brokers' errors."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from gearshift.connection import Connection
from gearshift.errors import NotAuthorizedError
from gearshift.topics.admin_requests import AdminRequests
from gearshift.topics.client import ANSWER_WITHIN

NOBODY = Connection(bootstrap_servers="127.0.0.1:1", registry_url="http://127.0.0.1:1")


def requests() -> AdminRequests:
    return AdminRequests(NOBODY, answer_within=ANSWER_WITHIN)


def answered(code: int) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(KafkaException(KafkaError(code)))
    return future


@pytest.mark.parametrize("code", [KafkaError.LEADER_NOT_AVAILABLE, KafkaError._NOENT])
def test_a_partition_without_a_leader_is_asked_for_again(code: int) -> None:
    assert requests()._offset(answered(code), "readings") is None


def test_a_failed_authorization_is_an_error() -> None:
    with pytest.raises(NotAuthorizedError):
        requests()._offset(answered(KafkaError.TOPIC_AUTHORIZATION_FAILED), "readings")
