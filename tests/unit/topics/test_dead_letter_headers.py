"""The headers that say why a record was set aside."""

from __future__ import annotations

from gearshift.topics.dead_letters import DeadLetter, dead_letter_headers


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


def test_the_records_own_headers_stay_and_those_of_an_earlier_death_go() -> None:
    first = dead_letter_headers(letter((("trace", b"1"),), reason="first"))
    again = dead_letter_headers(letter(tuple(first), reason="second"))
    assert ("trace", b"1") in again
    assert [value for name, value in again if name == "gearshift.reason"] == [b"second"]


def test_a_long_reason_is_cut() -> None:
    assert len(dict(dead_letter_headers(letter(reason="x" * 5000)))["gearshift.reason"] or b"") == 2000
