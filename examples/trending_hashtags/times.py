"""The dates of public posts, as instants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
ZONES = {
    "UTC": 0,
    "GMT": 0,
    "Z": 0,
    "EST": -5,
    "EDT": -4,
    "CST": -6,
    "CDT": -5,
    "MST": -7,
    "MDT": -6,
    "PST": -8,
    "PDT": -7,
}
"""Hours from UTC of the zone names in public files."""


def instant(written: str) -> datetime:
    """The instant in UTC, which is also meant by a date without a zone; raises ValueError if it cannot be read.

    >>> str(instant("Mon Apr 06 22:19:45 PDT 2009")), str(instant("2020-02-14T19:00:55.000Z"))
    ('2009-04-07 05:19:45+00:00', '2020-02-14 19:00:55+00:00')
    >>> str(instant("Wed Aug 27 13:08:45 +0000 2008"))
    '2008-08-27 13:08:45+00:00'
    """
    words = written.split()
    if len(words) == 6 and words[1] in MONTHS:
        return _with_names(written, words)
    try:
        found = datetime.fromisoformat(written.strip())
    except ValueError:
        raise ValueError(f"the date {written!r} cannot be read") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _with_names(written: str, words: list[str]) -> datetime:
    """`Mon Apr 06 22:19:45 PDT 2009`, whose names do not depend on this machine's language."""
    _, month, day, clock, zone, year = words
    if zone in ZONES:
        offset = timezone(timedelta(hours=ZONES[zone]))
    elif len(zone) == 5 and zone[0] in "+-" and zone[1:].isdigit():
        minutes = int(zone[1:3]) * 60 + int(zone[3:])
        offset = timezone(timedelta(minutes=-minutes if zone[0] == "-" else minutes))
    else:
        raise ValueError(f"the time zone {zone!r} of the date {written!r} is unknown")
    try:
        hour, minute, second = map(int, clock.split(":"))
        return datetime(
            int(year), MONTHS.index(month) + 1, int(day), hour, minute, second, tzinfo=offset
        ).astimezone(UTC)
    except ValueError:
        raise ValueError(f"the date {written!r} cannot be read") from None
