"""The same answers in plain Python, with the time zones of `zoneinfo`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from values import DoorReport

Day = tuple[str, date]


def distinct(reports: Iterable[DoorReport]) -> list[DoorReport]:
    """The reports without repetitions, in the order of time and door."""
    return sorted(set(reports), key=lambda report: (report.counted_at, report.door))


def business_day(at: datetime, zone: ZoneInfo) -> date:
    """The date of the business day, which begins at five on the clock of the mall."""
    local = at.astimezone(zone)
    return local.date() if local.time() >= time(5) else local.date() - timedelta(days=1)


def _moves(report: DoorReport) -> Iterator[tuple[str, int, int]]:
    """The places that a report is about, with who entered and left each."""
    yield report.zone, report.entered, report.left
    if report.beyond == "street":
        yield "mall", report.entered, report.left
    else:
        yield report.beyond, report.left, report.entered


def people(reports: Iterable[DoorReport], zone: ZoneInfo) -> dict[Day, tuple[int, int, int, datetime]]:
    """People now, entered, left and the last report, per place and business day."""
    found: dict[Day, tuple[int, int, int, datetime]] = {}
    for report in distinct(reports):
        for place, came, went in _moves(report):
            key = place, business_day(report.counted_at, zone)
            _, entered, left, _ = found.get(key, (0, 0, 0, report.counted_at))
            entered, left = entered + came, left + went
            found[key] = max(0, entered - left), entered, left, report.counted_at
    return found


def crowding(
    reports: Iterable[DoorReport], zone: ZoneInfo, capacity: Mapping[str, int]
) -> dict[Day, tuple[int, bool, int, datetime]]:
    """People, whether it is full, crossings and the last of them, for the places that were full that day."""
    inside: dict[Day, int] = defaultdict(int)
    full: set[Day] = set()
    crossed: dict[Day, list[datetime]] = defaultdict(list)
    for report in distinct(reports):
        for place, came, went in _moves(report):
            if place not in capacity:
                continue
            key = place, business_day(report.counted_at, zone)
            inside[key] += came - went
            if key not in full and inside[key] >= capacity[place]:
                full.add(key)
                crossed[key].append(report.counted_at)
            elif key in full and inside[key] * 10 <= capacity[place] * 9:
                full.remove(key)
    return {key: (max(0, inside[key]), key in full, len(times), times[-1]) for key, times in crossed.items()}


def footfall(reports: Iterable[DoorReport], zone: ZoneInfo) -> dict[tuple[str, str], tuple[int, int]]:
    """Who entered and left from the street, per zone and hour of the mall's clock with its offset."""
    found: dict[tuple[str, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for report in distinct(reports):
        if report.beyond == "street":
            hour = report.counted_at.astimezone(zone).replace(minute=0, second=0, microsecond=0)
            key = report.zone, hour.isoformat(timespec="minutes")
            found[key] = found[key][0] + report.entered, found[key][1] + report.left
    return dict(found)


def drift(reports: Iterable[DoorReport], zone: ZoneInfo) -> dict[Day, int]:
    """What the sensors left in each place at the end of its business day."""
    found: dict[Day, int] = defaultdict(int)
    for report in distinct(reports):
        for place, came, went in _moves(report):
            found[place, business_day(report.counted_at, zone)] += came - went
    return dict(found)
