"""Parsing, filtering, counting and previewing dead letters, without a broker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.errors import SettingsError
from gearshift.topics.dead_letters.letters import Filter, Letter, normalized, preview, summarize
from gearshift.topics.dead_letters.writer import (
    REASON_HEADERS,
    DeadLetter,
    dead_letter_headers,
    result_headers,
)
from gearshift.topics.reader import ConsumedRecord

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def letter(number: int = 0, reason: str = "no number", delivery: str | None = "text_owner") -> Letter:
    dead = DeadLetter(
        topic="alerts", partition=1, offset=number, key=b"k", value=b"v", app="meter",
        pipeline=None if delivery else "copy", delivery=delivery, group_id=delivery and "sms",
        stage="TASK_PUT", exception="builtins.ValueError", reason=reason,
    )  # fmt: skip
    return Letter.of(
        ConsumedRecord(
            "alerts.dlq",
            0,
            number,
            b"k",
            b"v",
            tuple(dead_letter_headers(dead)),
            NOON + timedelta(seconds=number),
        )
    )


def test_a_letter_is_read_back_as_it_was_written() -> None:
    read = letter(7)
    assert (read.position, read.origin) == ((0, 7), (1, 7))
    assert (read.failed_in, read.delivery, read.group_id, read.pipeline) == ("sms", "text_owner", "sms", None)
    assert letter(delivery=None).pipeline == "copy"


def test_a_row_of_a_result_names_its_pipeline_and_target() -> None:
    headers = result_headers("meter", "copy", "alerts") | dict.fromkeys(
        REASON_HEADERS, "required field n is null"
    )
    pairs = tuple((name, value.encode()) for name, value in headers.items())
    read = Letter.of(ConsumedRecord("alerts.dlq", 0, 1, None, b"{}", pairs, NOON))
    assert (read.pipeline, read.result_for, read.origin) == ("copy", "alerts", None)
    assert (read.stage, read.exception) == ("KAFKA_PRODUCE", "gearshift.errors.EncodeError")
    assert read.reason == "required field n is null"
    assert letter().result_for is None


def test_a_record_of_another_tool_is_a_letter_of_unknown_origin() -> None:
    read = Letter.of(ConsumedRecord("alerts.dlq", 0, 1, None, None, (("x", None),), None))
    assert read.origin is None
    assert read.failed_in == read.reason == "?"


@pytest.mark.parametrize(
    ("filters", "fits"),
    [
        ([], True),
        (["delivery=text_owner", "reason=number"], True),
        (["delivery=sms"], True),
        (["delivery=other"], False),
        (["delivery=other", "delivery=text_owner"], True),
        (["pipeline=sms"], False),
        (["exception=ValueError"], True),
        (["exception=builtins.ValueError"], True),
        (["exception=Value"], False),
        (["partition=1", "offset=3"], True),
        (["partition=1", "offset=4"], False),
        (["reason=a=b"], False),
    ],
)
def test_a_filter_selects_letters_that_match_one_value_of_every_field(filters: list[str], fits: bool) -> None:
    assert Filter.parse(filters).fits(letter(3)) == fits


@pytest.mark.parametrize("text", ["colour=red", "delivery", "partition=one", "offset=-1", ""])
def test_an_invalid_filter_is_an_error(text: str) -> None:
    with pytest.raises(SettingsError, match="is no"):
        Filter.parse([text])


def test_letters_are_counted_by_cause_the_most_frequent_first() -> None:
    letters = [letter(0), letter(1), letter(2, "late"), letter(3, delivery=None)]
    first, *rest = summarize(letters)
    assert (first.failed_in, first.reason, first.count) == ("sms", "no number", 2)
    assert (first.oldest, first.newest) == (NOON, NOON + timedelta(seconds=1))
    assert sorted(cause.count for cause in rest) == [1, 1]


def test_reasons_that_differ_in_offsets_ids_and_sizes_are_one_cause() -> None:
    reasons = [
        f"{size} bytes do not fit schema id {size + 3} of alerts-value (partition 1, offset {size})"
        for size in range(100)
    ]
    (cause,) = summarize(letter(number, reason) for number, reason in enumerate(reasons))
    assert cause.reason == "… bytes do not fit schema id … of alerts-value (partition …, offset …)"
    assert (cause.count, cause.example) == (100, reasons[0])
    assert [normalized(reason) for reason in ("HTTP 404", "SQLSTATE 23505", "t1-value2")] == [
        "HTTP 404",
        "SQLSTATE 23505",
        "t1-value2",
    ]


def test_reasons_beyond_the_limit_are_counted_together() -> None:
    causes = summarize(letter(number, f"value {number}") for number in range(1000))
    assert causes[0].reason == "other reasons" and causes[0].count == 950
    assert sum(cause.count for cause in causes) == 1000
    assert len(causes) == 51


@given(
    st.one_of(
        st.binary(max_size=500), st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace"))
    )
)
def test_a_preview_is_short_and_printable(data: bytes) -> None:
    assert len(preview(data)) <= 81
    assert preview(data).isprintable()


def test_a_truncated_character_does_not_make_text_binary() -> None:
    assert preview("ü".encode() * 1000, 5) == "üüüüü…"
    assert preview(b"a" + "ü".encode() * 1000, 3) == "aüü…"
