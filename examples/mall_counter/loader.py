"""Reads public counts of doors and footpaths: City of Melbourne (all layouts), CalIt2, York, Leeds, hystreet, Zürich,
Dublin.

A file, a folder of files, or a zip archive; plain or gzip. The header names the columns (`COLUMNS`), in any order,
separated by commas, semicolons, tabs or bars; CalIt2 may have none, and its two flows are one zone. Without a column
for the count, each other column is a sensor; without one for the sensor, the file's name is its name.

- A count without a direction is of people who pass: they enter the sensor's zone and leave it.
- A time without an offset is on the clock of the file's city, or of the mall. In the hour that comes twice, the first
  row of a sensor is the first of the two, the next row the second.
- 11/01/2019 is day-first or month-first as the rest of the file proves: by a number above 12, a weekday, columns for
  the month and its day, or a header such as Date(MM/DD/YY). A file that proves neither is refused, unless `dates` is
  given.
- A row that is repeated counts once. Of rows for one sensor and time with different counts the last one counts: it is
  the correction. A row without a count is skipped, and so is one at a time that the clock skips. A warning says how many
  of these there were, and the file and the line of the first.
"""

from __future__ import annotations

import csv
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from dates import Hints, Order, clock_of, date_of, is_ambiguous, offset_of, order_of, split
from files import CALIT2_IN, ORDER, File, Head, Row, files_of, head_of, text_of
from values import STREET, DoorReport
from wide import ROW_NUMBERS, sensors_of

from gearshift.errors import WrongFileError

log = logging.getLogger(__name__)

COLUMNS = {
    "sensor": (
        *("sensor_name", "locationname", "location_name", "sensor", "site", "counter", "camera"),
        *("door", "name", "sensor_id", "sensorid", "location_id", "locationid", "fk_standort", "flowid"),
        "location",
    ),
    "when": (
        *("date_time", "datetime", "sensing_datetime", "timestamp", "datewithhour", "recordtime"),
        *("time_of_measurement", "counted_at", "zeitstempel"),
    ),
    "date": ("sensing_date", "date", "day_date", "countdate", "datum"),
    "clock": ("hourday", "hour", "time", "start_time"),
    "in": ("direction_1", "in", "incount", "in_count", "entered", "entries", "count_in", "fuss_in"),
    "out": ("direction_2", "out", "outcount", "out_count", "left", "exits", "count_out", "fuss_out"),
    "count": (
        *("hourly_counts", "total_of_directions", "pedestriancount", "totalcount", "total_count", "count"),
        *("total", "footfall", "pedestrians", "pedestrians_count", "total_pedestrians_count"),
    ),
    "month": ("month",),
    "mdate": ("mdate",),
    "weekday": ("day", "weekday", "dayname"),
    "zone": ("zone", "area"),
    "beyond": ("beyond",),
}
"""The names of each column in public files, the better ones first."""
COUNTS = {"in", "out", "count"}
MISSING = ("", "na", "n/a", "nan", "null", "none", "-")
CITIES = {
    "hourly_counts": "Australia/Melbourne",
    "hourday": "Australia/Melbourne",
    "locationname": "Europe/London",
    "time_of_measurement": "Europe/Berlin",
    "fk_standort": "Europe/Zurich",
}
"""The time zone of files that have a column of this name."""
_WHOLE = re.compile(r"\d{1,9}(\.0*)?")
CALIT2 = "America/Los_Angeles"


class Odd:
    """The rows that are not taken as they are, for a warning."""

    def __init__(self) -> None:
        self._first: dict[str, Row] = {}
        self._count: Counter[str] = Counter()

    def add(self, what: str, row: Row) -> None:
        """Count a row."""
        self._first.setdefault(what, row)
        self._count[what] += 1

    def report(self) -> None:
        """Log how many there were, and where the first one is."""
        for what, row in self._first.items():
            log.warning("%d %s; the first at %s:%d", self._count[what], what, row.file, row.line)


def load(path: Path, *, zone: str = "Europe/Amsterdam", dates: str | None = None) -> list[DoorReport]:
    """The reports of a file, or of all files in a folder, in the order of time and without duplicates.

    `zone` is of times whose city is unknown, `dates` ("day-first" or "month-first") of files that do not prove it.
    """
    order: Order | None = dates if dates in ("day-first", "month-first") else None  # type: ignore[assignment]
    if dates and order is None:
        raise WrongFileError(f"unknown order {dates!r}", hint="use day-first or month-first")
    found: dict[tuple[str, datetime], DoorReport] = {}
    odd = Odd()
    seen: dict[tuple[str, datetime], int] = defaultdict(int)  # rows for a time on a clock
    for file in files_of(path):
        local = ZoneInfo(_city(file) or zone)
        proven = _order(file, order)
        for row in _rows(file):
            report = _report(row, proven, local, seen, odd)
            if report is None:
                continue
            key = report.door, report.counted_at
            if key in found:
                same = found[key] == report
                odd.add("repeated rows dropped" if same else "counts corrected by a later row", row)
            found[key] = report
    if not found:
        raise WrongFileError(
            "it has no counts", hint="name a file with at least one row of counts", file=str(path)
        )
    odd.report()
    return sorted(found.values(), key=lambda report: (report.counted_at, report.door))


def zone_of(path: Path) -> str | None:
    """The time zone of the first file whose city is known."""
    return next((zone for file in files_of(path) if (zone := _city(file))), None)


def _city(file: File) -> str | None:
    head = head_of(file)
    if head.is_calit2:
        return CALIT2
    return next((zone for column, zone in CITIES.items() if column in head.names), None)


def _rows(file: File) -> Iterator[Row]:
    head = head_of(file)
    places, others = _places(file, head)
    # Without a column for it, the file is of one sensor, or it has a column for each.
    is_wide = not {"sensor", *COUNTS} & places.keys()
    sensors = sensors_of(head, places.values()) if is_wide else {}
    reader = csv.reader(text_of(file), delimiter=head.separator)
    line = 1
    for cells in reader:
        row = Row(file, line, {})
        line = reader.line_num + 1
        is_head = row.line < head.line or (head.is_header and [cell.strip() for cell in cells] == head.cells)
        if is_head or not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(head.cells):
            raise row.wrong(f"{len(cells)} columns instead of {len(head.cells)}", "repair the row")
        row.cells.update({field: " ".join(cells[place].split()) for field, place in places.items()})
        for sensor, columns in sensors.items():
            counts = {field: cells[column].strip() for field, column in columns.items()}
            yield Row(file, row.line, {**row.cells, "sensor": sensor, **counts})
        if is_wide:
            continue
        if not row.cells.setdefault("sensor", Path(file.name).stem):
            row.cells["sensor"] = next((cells[place].strip() for place in others if cells[place].strip()), "")
        if head.is_calit2:
            row.cells["in" if row.cells["sensor"] == CALIT2_IN else "out"] = row.cells.pop("count")
            row.cells["zone"] = "CalIt2"
        yield row


def _places(file: File, head: Head) -> tuple[dict[str, int], list[int]]:
    """The column of each field, and further columns that may name the sensor."""
    if head.is_calit2:
        return {"sensor": 0, "date": 1, "clock": 2, "count": 3}, []
    names = [ORDER.sub("", name) for name in head.names]
    known = {
        field: [names.index(alias) for alias in aliases if alias in names]
        for field, aliases in COLUMNS.items()
    }
    places = {field: columns[0] for field, columns in known.items() if columns}
    if "clock" in places and not {"when", "date"} & places.keys():
        places["when"] = places.pop("clock")
    missing = [] if {"when", "date"} & places.keys() else ["a date"]
    if not COUNTS & places.keys() and ("sensor" in places or len(places) == len(names)):
        missing.append("a count")
    rest = set(range(len(names))) - {column for columns in known.values() for column in columns}
    if COUNTS & places.keys() and "sensor" not in places and any(names[n] not in ROW_NUMBERS for n in rest):
        missing.append("a sensor")  # which may be one of the unknown columns
    if missing and names:
        what = f"no column for {' and '.join(missing)} among {', '.join(head.names)}"
        hint = "name them in a header such as Sensor_Name,Date_Time,Hourly_Counts"
        raise WrongFileError(what, hint=hint, file=str(file), line=head.line)
    # Melbourne's newest files have rows without a name; their number is in another column.
    return places, known["sensor"][1:]


def _order(file: File, given: Order | None) -> Order | None:
    """How the dates of a file are written."""
    ambiguous: Row | None = None
    head = head_of(file)
    proven = head.order
    for row in _rows(file):
        written, _ = _written(row)
        cells = row.cells
        hints = Hints(cells.get("month", ""), cells.get("mdate", ""), cells.get("weekday", ""))
        try:
            found = order_of([(written, hints)])
        except ValueError as error:
            raise row.wrong(str(error), "repair the row") from None
        if found and proven and found != proven:
            hint = "split the file, so that each has one order of day and month"
            raise row.wrong(f"the date {written!r} is {found}, but earlier ones are {proven}", hint)
        proven = proven or found
        ambiguous = ambiguous or (row if is_ambiguous(written) else None)
    if proven is None and given is None and ambiguous is not None:
        if head.is_calit2:
            return "month-first"  # as CalIt2 is documented
        what = f"the date {_written(ambiguous)[0]!r} may be day-first or month-first, and no row of the file proves it"
        raise ambiguous.wrong(what, 'set MALL_DATES to "day-first" or "month-first"')
    return proven or given


def _written(row: Row) -> tuple[str, str]:
    """The date and the time, as text."""
    cells = row.cells
    try:
        day, clock = split(cells["when"] if "when" in cells else cells["date"])
    except ValueError as error:
        raise row.wrong(str(error), "write it as 2019-11-01T17:00") from None
    return day, cells["clock"] if "when" not in cells and "clock" in cells else clock


def _report(
    row: Row,
    order: Order | None,
    zone: tzinfo,
    seen: dict[tuple[str, datetime], int],
    odd: Odd,
) -> DoorReport | None:
    cells = row.cells
    counts = {name: cells[name] for name in ("in", "out", "count") if name in cells}
    if "in" in counts or "out" in counts:
        counts.pop("count", None)
    if all(text.lower() in MISSING for text in counts.values()):
        odd.add("rows without a count skipped", row)
        return None
    numbers = {name: _number(row, text) for name, text in counts.items()}
    entered, left = numbers.get("in", numbers.get("count", 0)), numbers.get("out", numbers.get("count", 0))
    sensor = cells["sensor"]
    if not sensor:
        raise row.wrong("a row without a sensor", "name the sensor")
    day, clock = _written(row)
    try:
        clock, offset = offset_of(clock)
        local = datetime.combine(date_of(day, order), clock_of(clock))
    except ValueError as error:
        raise row.wrong(str(error), "write it as 2019-11-01T17:00") from None
    place, beyond = cells.get("zone") or sensor, cells.get("beyond") or STREET
    if offset is not None:
        at = local.replace(tzinfo=offset.tzinfo).astimezone(UTC)
        return DoorReport(sensor, place, beyond, entered, left, at)
    first, second = (local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first > second:  # the clock skips this time
        odd.add(f"rows skipped at a time that the clocks of {zone} skip", row)
        return None
    seen[sensor, local] += first < second
    at = second if first < second and seen[sensor, local] % 2 == 0 else first
    return DoorReport(sensor, place, beyond, entered, left, at)


def _number(row: Row, text: str) -> int:
    plain = text.replace(",", "") if text.lower() not in MISSING else "0"
    if not _WHOLE.fullmatch(plain):
        raise row.wrong(f"the count {text!r} is not a whole number of people", "repair the row")
    return int(float(plain))
