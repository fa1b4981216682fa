"""The ledger's entries for intervals: one file each, so that concurrent runs never wait for each other."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from gearshift.calendars import Interval
from gearshift.definitions import Intervals
from gearshift.errors import LedgerError
from gearshift.storage.folders import Folder

FOLDER = "intervals"
_FAILURE = ".failure"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """What a run read from one source: the table's version and the rows of the interval."""

    table: str
    version: int
    rows: int
    digest: str | None = None
    """Digest of the interval's rows; None for a source that is read in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A successful run of an interval."""

    pipeline: str
    interval: Interval
    rows: int
    inputs: Mapping[str, Input]
    began: datetime
    seconds: float
    version: int
    """The target's version with this result."""
    why: str

    @property
    def is_final(self) -> bool:
        """Whether the interval had ended when it ran."""
        return self.began >= self.interval.end

    def as_json(self) -> dict[str, Any]:
        """The entry as plain data."""
        return {
            "pipeline": self.pipeline,
            "start": self.interval.start.isoformat(),
            "end": self.interval.end.isoformat(),
            "rows": self.rows,
            "inputs": {name: asdict(source) for name, source in self.inputs.items()},
            "began": self.began.isoformat(),
            "seconds": round(self.seconds, 3),
            "version": self.version,
            "why": self.why,
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Entry:
        """Parse an entry."""
        start, end = (datetime.fromisoformat(kept[name]) for name in ("start", "end"))
        return cls(
            pipeline=kept["pipeline"],
            interval=Interval(start, end),
            rows=kept["rows"],
            inputs={name: Input(**source) for name, source in kept["inputs"].items()},
            began=datetime.fromisoformat(kept["began"]).astimezone(UTC),
            seconds=kept["seconds"],
            version=kept["version"],
            why=kept["why"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The latest failed run of an interval, if no later run succeeded."""

    pipeline: str
    interval: Interval
    began: datetime
    why: str
    error: str
    tries: int = 1
    """The number of consecutive failures."""

    def as_json(self) -> dict[str, Any]:
        """The failure as plain data."""
        return {
            "pipeline": self.pipeline,
            "start": self.interval.start.isoformat(),
            "end": self.interval.end.isoformat(),
            "began": self.began.isoformat(),
            "why": self.why,
            "error": self.error,
            "tries": self.tries,
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Failure:
        """Parse a failure."""
        start, end = (datetime.fromisoformat(kept[name]) for name in ("start", "end"))
        return cls(
            pipeline=kept["pipeline"],
            interval=Interval(start, end),
            began=datetime.fromisoformat(kept["began"]).astimezone(UTC),
            why=kept["why"],
            error=kept["error"],
            tries=kept["tries"],
        )


class IntervalLog:
    """The entries of one pipeline, in a folder next to its ledger."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def entries(self) -> list[Entry]:
        """The latest run of every interval, oldest interval first."""
        names = sorted(name for name in self._folder.names(FOLDER) if name.endswith(".json"))
        found = (self._read(name) for name in names)
        return [entry for entry in found if entry is not None]

    def of(self, interval: Interval) -> Entry | None:
        """The latest run of an interval."""
        return self._read(f"{interval.name}.json")

    def has_reached(self, interval: Interval) -> bool:
        """Whether the interval, or a later one, has run after its end."""
        name = f"{interval.name}.json"
        if any(other > name for other in self._folder.names(FOLDER) if other.endswith(".json")):
            return True
        return self._is_final(interval)

    def failures(self) -> list[Failure]:
        """The intervals whose latest run failed, oldest first."""
        names = sorted(name for name in self._folder.names(FOLDER) if name.endswith(_FAILURE))
        found = (self._read_failure(name) for name in names)
        return [failure for failure in found if failure is not None]

    def lacks(self, span: Interval, intervals: Intervals) -> bool:
        """Whether an interval within a span has failed and has no result yet."""
        return any(
            failure.interval.start < span.end
            and failure.interval.end > span.start
            and intervals.has(failure.interval)
            and not self._is_final(failure.interval)
            for failure in self.failures()
        )

    def failure_of(self, interval: Interval) -> Failure | None:
        """The failure of the latest run of an interval, if it failed."""
        return self._read_failure(f"{interval.name}{_FAILURE}")

    def keep_failure(self, failure: Failure) -> Failure:
        """Record a failed run; it counts the failures before it."""
        before = self.failure_of(failure.interval)
        kept = replace(failure, tries=before.tries + 1) if before is not None else failure
        text = json.dumps(kept.as_json(), indent=1)
        self._folder.write(f"{FOLDER}/{failure.interval.name}{_FAILURE}", text)
        return kept

    def keep(self, entry: Entry) -> None:
        """Record a run, unless the table has the result of a later one."""
        known = self.of(entry.interval)
        if known is None or known.version < entry.version:
            text = json.dumps(entry.as_json(), indent=1)
            self._folder.write(f"{FOLDER}/{entry.interval.name}.json", text)

    def _read(self, name: str) -> Entry | None:
        return self._parsed(name, Entry.from_json)

    def _is_final(self, interval: Interval) -> bool:
        entry = self.of(interval)
        return entry is not None and entry.is_final

    def _read_failure(self, name: str) -> Failure | None:
        """A failure, unless a run that began later succeeded."""
        failure = self._parsed(name, Failure.from_json)
        entry = self.of(failure.interval) if failure is not None else None
        return None if failure is None or (entry is not None and entry.began > failure.began) else failure

    def _parsed(self, name: str, parse: Callable[[Mapping[str, Any]], T]) -> T | None:
        text = self._folder.read(f"{FOLDER}/{name}")
        if text is None:
            return None
        try:
            return parse(json.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise LedgerError(
                f"the ledger's entry {self._folder.place(f'{FOLDER}/{name}')} is damaged: {error or 'it is empty'}",
                hint="remove it, and the interval runs again",
            ) from None
