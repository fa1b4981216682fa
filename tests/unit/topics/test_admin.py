"""How admin requests treat the brokers' errors."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from gearshift.connection import Connection
from gearshift.errors import BrokerUnreachableError, LoginError, NotAuthorizedError
from gearshift.topics import admin_requests
from gearshift.topics.admin_requests import AdminRequests
from gearshift.topics.client import ANSWER_WITHIN, Client

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


def test_a_request_that_nobody_answers_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_requests, "READY_WITHIN", timedelta(0))
    monkeypatch.setattr(admin_requests, "_GRACE", 0.0)
    with pytest.raises(BrokerUnreachableError):
        AdminRequests(NOBODY, answer_within=timedelta(milliseconds=200)).answer(Future())


@pytest.mark.parametrize(
    ("reason", "is_rejected"),
    [
        ("SASL authentication error: Authentication failed (after 300ms in state AUTH_REQ)", True),
        ("SASL PLAIN mechanism handshake failed: Local: Timed out: broker's supported mechanisms: ", False),
        ("SASL handshake failed: Local: Broker transport failure", False),
    ],
)
def test_a_login_that_a_stalled_broker_ends_is_not_a_rejected_one(reason: str, is_rejected: bool) -> None:
    client = Client(NOBODY)
    client._on_error(KafkaError(KafkaError._AUTHENTICATION, reason))
    assert isinstance(client.rejection, LoginError) is is_rejected
