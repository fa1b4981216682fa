"""Which columns of a meter file are which: one reading per line, or a day's readings side by side."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sheets import Row
from times import matched

_NAMES = {
    "meter": "lclid meter meterid metreid customer customerid household householdid id mpan mprn nmi serial serialnumber "
    "meterserialnumber zaehler zhler zaehlernummer zhlernummer zaehlpunkt zhlpunkt messlokation marktlokation",
    "tariff": "stdortou tariff",
    "date": "date day datum tag readingdate settlementdate",
    "time": "datetime timestamp time tstp readat readingtime readingdatetime start starttime startdatetime periodstart tijd "
    "intervalstart from zeitstempel zeit uhrzeit datumuhrzeit von beginn startzeit",
    "kwh": "kwhhhperhalfhour kwh kwhhh energykwhhh energykwh energy energyconsumptionkwh value valuekwh consumption "
    "consumptionkwh usage usagekwh importkwh reading verbrauch verbrauchkwh wert wertkwh energie energiekwh "
    "energiemenge energiemengekwh menge mengekwh messwert messwertkwh bezugkwh verbruik levering",
    "zone": "zone timezone tz zeitzone",
}
_COLUMNS = {name: role for role, names in _NAMES.items() for name in names.split()}
_GERMAN = re.compile(
    r"z(ae)?hler.*|z(ae)?hlpunkt|messlokation|marktlokation|datum.*|tag|zeit.*|uhrzeit|von|beginn|startzeit|"
    r"(verbrauch|wert|energie|energiemenge|menge|messwert|bezug)(kwh)?"
)
_IN_KWH = re.compile(r"(?<![a-z])kwh\W*$", re.IGNORECASE)  # such as Verbruik (kWh), in any language
_ORDINAL = re.compile(
    r"(?:hh|h|sp|period|interval|slot|kwh|value|halfhour)?[_ ]?(\d{1,3})", re.ASCII | re.IGNORECASE
)
_OF_CLOCK = re.compile(
    r"(?:hh|h|t|kwh)?[_ ]?(\d{1,2}):?(\d{2})(?::00)?(?:\s*(?:-|to)\s*\d{1,2}:\d{2})?", re.ASCII
)
_FEWEST = 23  # columns of a day: hours of the day on which clocks are put forward
MINUTES = 24 * 60


@dataclass(frozen=True)
class Layout:
    """The columns of a file."""

    roles: dict[str, tuple[int, ...]]
    has_header: bool
    is_utc: bool = False
    """Whether the header says that times are in UTC."""
    is_german: bool = False
    step: int | None = None
    """Of files with a day per line: the minutes of each reading."""
    by_clock: bool = False
    """Of files with a day per line: whether the header names times of the wall clock, rather than numbers."""

    @property
    def width(self) -> int:
        """The number of columns that every line must have."""
        needed = [columns for role, columns in self.roles.items() if role != "kwh" or self.step is None]
        return max(column for columns in needed for column in columns) + 1

    def cell(self, row: Row, role: str) -> str:
        """The cell of a role; empty if the file has no such column."""
        return row.cells[self.roles[role][0]] if role in self.roles else ""

    def time(self, row: Row) -> str:
        """The date and the time of a row as text."""
        return " ".join(row.cells[column] for column in self.roles["time"] if column < len(row.cells))


def layout_of(first: Row, *, is_first: bool) -> Layout:
    """The layout of a file by its header, or by its first line: meter, (tariff,) time, kWh."""
    roles: dict[str, tuple[int, ...]] = {}
    is_utc = is_german = False
    for column, cell in enumerate(first.cells):
        name = re.sub(r"[^a-z]", "", cell.lower())
        plain = name.removesuffix("utc")
        role = _COLUMNS.get(plain)
        if role is not None and role not in roles:
            roles[role] = (column,)
            is_utc |= plain != name
            is_german |= _GERMAN.fullmatch(plain) is not None
    energies = [column for column, cell in enumerate(first.cells) if _IN_KWH.search(cell)]
    if "kwh" not in roles and len(energies) == 1:
        roles["kwh"] = (energies[0],)
    times = [column for column, cell in enumerate(first.cells) if matched(cell)]
    # Further down, such a line may follow a header whose columns are not known, and may be in another unit.
    if is_first and times and not roles.keys() & {"time", "date"}:
        if times[0] not in (1, 2) or times[0] + 1 >= len(first.cells):
            raise first.error("the columns are not known", "write a header: meter, tariff, time, kwh")
        known = {"meter": (0,), "time": (times[0],), "kwh": (times[0] + 1,)}
        return Layout({**known, "tariff": (1,)} if times[0] == 2 else known, has_header=False)
    step, by_clock = None, False
    if "date" in roles and (side_by_side := _of_a_day(first)):
        roles["time"], (roles["kwh"], step, by_clock) = roles.pop("date"), side_by_side
    elif "date" in roles:
        roles["time"] = roles.pop("date") + roles.get("time", ())
    if missing := [role for role in ("time", "kwh") if role not in roles]:
        raise first.error(
            f"the file has no column {', '.join(missing)}; it has {', '.join(first.cells)}",
            "name the columns meter, tariff, time, kwh",
        )
    return Layout(roles, True, is_utc, is_german, step, by_clock)


def _of_a_day(header: Row) -> tuple[tuple[int, ...], int, bool] | None:
    """The columns of the readings of a day, how many minutes apart, and whether times name them."""
    clock = [
        (column, found) for column, cell in enumerate(header.cells) if (found := _minute(cell)) is not None
    ]
    numbers = [
        (column, int(found[1]))
        for column, cell in enumerate(header.cells)
        if (found := _ORDINAL.fullmatch(cell.strip()))
    ]
    named, by_clock = (clock, True) if len(clock) > len(numbers) else (numbers, False)
    if len(named) < _FEWEST:
        return None
    step = {48: 30, 50: 30, 96: 15, 100: 15}.get(len(named))
    if step is None:
        raise header.error(
            f"a line has {len(named)} readings of a day", "use files with 48 half hours or 96 quarter hours"
        )
    begin = named[0][1] if not by_clock or named[0][1] != step else step
    stride = step if by_clock else 1
    for place, (column, label) in enumerate(named):
        wanted = begin + place * stride
        if label != (wanted % MINUTES if by_clock else wanted) or begin not in (0, stride):
            raise header.error(
                f"the readings of a day are not in order at {header.cells[column]!r}",
                "order the columns by time",
            )
    return tuple(column for column, _ in named), step, by_clock


def _minute(cell: str) -> int | None:
    found = _OF_CLOCK.fullmatch(cell.strip())
    if found is None or int(found[2]) > 59 or int(found[1]) > 24:
        return None
    return (int(found[1]) * 60 + int(found[2])) % MINUTES
