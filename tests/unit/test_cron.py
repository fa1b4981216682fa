"""Cron expressions, also on days with a clock change."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest

from gearshift.cron import Cron
from gearshift.errors import DefinitionError

BERLIN = ZoneInfo("Europe/Berlin")


def runs(text: str, start: datetime, count: int, zone: tzinfo = UTC) -> list[str]:
    cron, found = Cron.parse(text), [start]
    for _ in range(count):
        found.append(cron.next_run(found[-1].astimezone(UTC), zone))
    return [run.isoformat(timespec="minutes") for run in found[1:]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 6 * * mon-fri", ["2026-11-13T06:00+00:00", "2026-11-16T06:00+00:00"]),
        ("*/25 * * * *", ["2026-11-13T00:25+00:00", "2026-11-13T00:50+00:00"]),
        ("10-40/15 3 * * *", ["2026-11-13T03:10+00:00", "2026-11-13T03:25+00:00"]),
        ("0 0 1,15 * *", ["2026-11-15T00:00+00:00", "2026-12-01T00:00+00:00"]),
        ("0 0 13 * sun", ["2026-11-15T00:00+00:00", "2026-11-22T00:00+00:00"]),  # the 13th or a Sunday
        ("0 0 */2 * 7", ["2026-11-15T00:00+00:00", "2026-11-29T00:00+00:00"]),  # an odd day that is a Sunday
        ("0 0 29 2 *", ["2028-02-29T00:00+00:00", "2032-02-29T00:00+00:00"]),
        ("30 22 * dec,JAN *", ["2026-12-01T22:30+00:00", "2026-12-02T22:30+00:00"]),
        ("@monthly", ["2026-12-01T00:00+00:00", "2027-01-01T00:00+00:00"]),
        ("5/20 0 * * *", ["2026-11-13T00:05+00:00", "2026-11-13T00:25+00:00"]),
    ],
)
def test_a_line_of_cron_means_what_it_means_everywhere(text: str, expected: list[str]) -> None:
    assert runs(text, datetime(2026, 11, 13, 0, 0, tzinfo=UTC), 2) == expected


def test_a_time_in_the_skipped_hour_happens_right_after_it_and_in_the_repeated_one_once() -> None:
    assert runs("30 2 * * *", datetime(2026, 3, 28, 12, tzinfo=BERLIN), 2, BERLIN) == [
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:30+02:00",
    ]
    assert runs("30 2 * * *", datetime(2026, 10, 24, 12, tzinfo=BERLIN), 2, BERLIN) == [
        "2026-10-25T02:30+02:00",
        "2026-10-26T02:30+01:00",
    ]


def test_a_time_at_every_hour_follows_real_time() -> None:
    assert runs("30 * * * *", datetime(2026, 3, 29, 1, tzinfo=BERLIN), 2, BERLIN) == [
        "2026-03-29T01:30+01:00",
        "2026-03-29T03:30+02:00",
    ]
    assert runs("30 * * * *", datetime(2026, 10, 25, 2, tzinfo=BERLIN), 3, BERLIN) == [
        "2026-10-25T02:30+02:00",
        "2026-10-25T02:30+01:00",
        "2026-10-25T03:30+01:00",
    ]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "invalid cron expression"),
        ("* * * *", "invalid cron expression"),
        ("* * * * * *", "invalid cron expression"),
        ("60 * * * *", "'60' is not a valid minute"),
        ("* 24 * * *", "'24' is not a valid hour"),
        ("* * 0 * *", "'0' is not a valid day"),
        ("* * * mai *", "'mai' is not a valid month"),
        ("* * * * 8", "'8' is not a valid weekday"),
        ("*/0 * * * *", r"'\*/0' is not a valid minute"),
        ("5-1 * * * *", "'5-1' is not a valid minute"),
        ("1,,2 * * * *", "'' is not a valid minute"),
        ("0 0 30 2 *", "never matches"),
        ("0 0 31 4,6,9,11 *", "never matches"),
    ],
)
def test_an_invalid_cron_expression_is_rejected_with_its_part(text: str, what: str) -> None:
    with pytest.raises(DefinitionError, match=what):
        Cron.parse(text)
