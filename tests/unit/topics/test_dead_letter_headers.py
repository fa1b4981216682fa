"""The headers of dead letters."""

from __future__ import annotations

import pytest

from gearshift.topics.dead_letters.writer import DeadLetter, dead_letter_headers, replayed_place


def letter(headers: tuple[tuple[str, bytes | None], ...] = (), reason: str = "not readable") -> DeadLetter:
    return DeadLetter(
        topic="readings", partition=2, offset=77, key=b"k", value=b"v", headers=headers,
        app="smart-meter", pipeline="load_alerts", reason=reason, schema_id=5,
    )  # fmt: skip


def test_a_dead_letter_carries_kafka_connects_headers_and_ours() -> None:
    headers = dict(dead_letter_headers(letter()))
    assert headers["__connect.errors.topic"] == b"readings"
    assert headers["__connect.errors.partition"] == b"2"
    assert headers["__connect.errors.offset"] == b"77"
    assert headers["__connect.errors.connector.name"] == b"smart-meter.load_alerts"
    assert headers["__connect.errors.exception.message"] == b"not readable"
    assert headers["gearshift.schema_id"] == b"5"
    assert headers["gearshift.reason"] == b"not readable"


def test_the_original_headers_stay_and_those_of_an_earlier_failure_are_dropped() -> None:
    first = dead_letter_headers(letter((("trace", b"1"),), reason="first"))
    again = dead_letter_headers(letter(tuple(first), reason="second"))
    assert ("trace", b"1") in again
    assert [value for name, value in again if name == "gearshift.reason"] == [b"second"]


def test_a_long_reason_is_cut() -> None:
    assert len(dict(dead_letter_headers(letter(reason="x" * 5000)))["gearshift.reason"] or b"") == 2000


def test_a_deliverys_letter_names_its_group_and_the_end_of_the_stack_trace() -> None:
    failed = DeadLetter(
        topic="alerts", partition=0, offset=3, key=None, value=None, app="smart-meter", delivery="text_owner",
        group_id="sms-sender", stage="TASK_PUT", exception="builtins.ValueError", reason="no number",
        stacktrace="first" + "x" * 5000 + "last",
    )  # fmt: skip
    headers = dict(dead_letter_headers(failed))
    assert headers["__connect.errors.connector.name"] == b"sms-sender"
    assert headers["__connect.errors.class.name"] == b"text_owner"
    assert headers["__connect.errors.stage"] == b"TASK_PUT"
    assert headers["gearshift.delivery"] == b"text_owner"
    assert headers["gearshift.group_id"] == b"sms-sender"
    stack = headers["__connect.errors.exception.stacktrace"] or b""
    assert len(stack) == 4096 and stack.endswith(b"last")
    assert "gearshift.schema_id" not in headers


def test_a_pipelines_letter_has_no_stack_trace_and_no_group() -> None:
    headers = dict(dead_letter_headers(letter()))
    assert headers["__connect.errors.class.name"] == b"gearshift.schemas.Decoder"
    assert not {"gearshift.group_id", "gearshift.delivery", "__connect.errors.exception.stacktrace"} & set(
        headers
    )


@pytest.mark.parametrize("text", [b"", b"1", b"a/b", b"1/", b"/1", b"-1/2", None])
def test_an_invalid_position_is_ignored(text: bytes | None) -> None:
    assert replayed_place([("gearshift.replay-of", text)]) is None
