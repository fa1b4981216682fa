"""What a client sends is checked before Kafka or the registry is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.consoles import Client, open_console


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """A console whose cluster does not answer: a request that gets that far is not refused for its input."""
    with open_console(tmp_path) as client:
        yield client


@pytest.mark.parametrize(
    "path",
    [
        "/api/topics/a%00b",
        "/api/topics/%F0%9F%92%A9/records",
        f"/api/topics/{'x' * 250}/form",
        "/api/topics/t/records?limit=0",
        "/api/topics/t/records?limit=1001",
        "/api/topics/t/records?partition=-1",
        "/api/topics/t/records?partition=" + "9" * 5000,
        "/api/topics/t/records?partition=0&offset=9223372036854775808",
        "/api/topics/t/records?partition=0&offset=0&from=earliest",
        "/api/topics/t/records?from=",
        "/api/topics/t/records?from=%00",
        "/api/topics/t/records?from=-" + "9" * 5000,
        "/api/topics/t/records?from=2026-01-01T00:00:00",
        "/api/topics/t/records?field=a",
        "/api/topics/t/tail?equals=a",
        "/api/topics/t/tail?partition=2147483648",
        "/api/dead-letters/t?limit=0",
        "/api/dead-letters/t?only=colour=red",
        "/api/dead-letters/t?only=offset=" + "9" * 5000,
        "/api/groups/",
        "/api/schemas/",
    ],
)
def test_a_question_that_makes_no_sense_is_refused(client: Client, path: str) -> None:
    reply = client.get(path)
    assert reply.status == 400, reply.data
    assert reply.error["what"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/topics/t/records", {}),
        ("/api/topics/t/records", None),
        ("/api/topics/t/records", {"value": "\ud800"}),
        ("/api/topics/t/records", {"value": 1, "key": "\ud800"}),
        ("/api/topics/t/records", {"value": float("nan")}),
        ("/api/topics/t/records", {"value": 1, "partition": 2**31}),
        ("/api/topics/t/records", {"value": 1, "headers": {"\ud800": "x"}}),
        ("/api/topics/t/records", {"value": 1, "headers": {str(n): "" for n in range(101)}}),
        ("/api/groups/g/reset", {"topic": "t", "to": ""}),
        ("/api/groups/g/reset", {"topic": "a b", "to": "latest"}),
        ("/api/groups/g/reset", {"topic": "t", "to": "9" * 5000}),
        ("/api/dead-letters/t/replay", {"only": ["\ud800=1"]}),
        ("/api/dead-letters/t/discard", {"only": "reason=x"}),
        ("/api/dead-letters/t/discard", {"only": ["partition=-1"]}),
        ("/api/schemas/s/check", {}),
        ("/api/schemas/s/check", {"text": 7}),
    ],
)
def test_a_request_that_makes_no_sense_changes_nothing(client: Client, path: str, body: Any) -> None:
    reply = client.post(path, body)
    assert reply.status == 400, reply.data
    assert reply.error["what"]


def test_a_cluster_that_does_not_answer_is_unavailable(client: Client) -> None:
    assert client.get("/api/topics").status == 503
    reply = client.get("/api/schemas")
    assert (reply.status, reply.error["kind"]) == (503, "RegistryUnreachableError")
