"""Describes why a reader with one version of a schema cannot read records of another. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["missing", "unknown", "open", "type", "null", "name", "words", "rule"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a writer's schema allows and a reader's schema does not."""

    kind: Kind
    field: str
    written: str = ""
    """The type or rule in the writer's schema."""
    wanted: str = ""
    """The type or rule in the reader's schema."""
    former: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    """For a missing field: the writer's fields that the reader does not have; one may be its former name."""

    def __str__(self) -> str:
        """The reason, for readers of an external topic."""
        where = f"field {self.field}" if self.field else "the value"
        match self.kind:
            case "missing":
                return f"{where} has no default and may be missing from records"
            case "unknown":
                return f"{where} is written, but the reader does not allow it"
            case "open":
                return f"{where} may have any type in records, not only {self.wanted}"
            case "null":
                return f"{where} may be null in records"
            case "name":
                return f"the record{_in(self.field)} is written as {self.written}, not {self.wanted}"
            case "words":
                return f"{where} may be {self.written} in records"
            case "type":
                return f"{where} is written as {self.written}, not {self.wanted}"
            case "rule":
                return f"{where} is written with {self.written}, but the reader requires {self.wanted}"


@dataclass(frozen=True, slots=True)
class Change:
    """One change between two versions: its field, a description, a remedy, and which readers it breaks."""

    field: str
    what: str
    remedy: str
    breaks_new_readers: bool
    breaks_old_readers: bool

    def breaks(self, compatibility: str) -> bool:
        """Whether this compatibility level forbids the change.

        BACKWARD: new readers read old records. FORWARD: old readers read new records.
        """
        level = compatibility.removesuffix("_TRANSITIVE")
        return (self.breaks_new_readers and level in ("BACKWARD", "FULL")) or (
            self.breaks_old_readers and level in ("FORWARD", "FULL")
        )

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


def as_changes(new_readers: Iterable[Problem], old_readers: Iterable[Problem]) -> list[Change]:
    """The changes that keep new readers from reading old records, and old readers from new ones."""
    found: dict[tuple[str, str], Change] = {}
    for problem in new_readers:
        what, remedy = _for_new_readers(problem)
        found[problem.field, what] = Change(problem.field, what, remedy, True, False)
    for problem in old_readers:
        what, remedy = _for_old_readers(problem)
        known = found.get((problem.field, what))
        both = known is not None and known.breaks_new_readers
        found[problem.field, what] = Change(problem.field, what, remedy, both, True)
    return list(found.values())


def _for_new_readers(problem: Problem) -> tuple[str, str]:
    where = f"field {problem.field}" if problem.field else "the value"
    match problem.kind:
        case "missing":
            if problem.wanted == "required":
                return f"{where} is now required", "give it a default"
            renamed = " or ".join(f'Alias("{name}")' for name in problem.former)
            return f"{where} was added without a default", (
                f"give it a default, or if it was renamed, {renamed}" if renamed else "give it a default"
            )
        case "unknown":
            return f"{where} was removed, but old records still have it", "keep it, with a default"
        case "open":
            return (
                f"{where} was added as {problem.wanted}, but old records may have any type under that name",
                'close the object with "additionalProperties": false before you add fields',
            )
        case "null":
            return f"{where} may no longer be null", f"keep it {problem.wanted} | None"
        case "words":
            return f"{where} may no longer be {problem.written}", "keep the values that old records may have"
        case _:
            return _changed(problem, problem.written, problem.wanted)


def _for_old_readers(problem: Problem) -> tuple[str, str]:
    where = f"field {problem.field}" if problem.field else "the value"
    match problem.kind:
        case "missing":
            if problem.wanted == "required":
                return f"{where} is no longer required", "keep it required"
            return f"{where}, which has no default, was removed", "keep it"
        case "unknown":
            return f"{where} was added", "old readers reject unknown fields of closed objects"
        case "open":
            return f"{where} was removed, and new records may have any type under that name", "keep it"
        case "null":
            return f"{where} may now be null", f"keep it {problem.wanted}"
        case "words":
            return f"{where} may now be {problem.written}", "old readers do not know it"
        case _:
            return _changed(problem, problem.wanted, problem.written)


def _changed(problem: Problem, old: str, new: str) -> tuple[str, str]:
    """Describe a change that reads the same for both directions."""
    if problem.kind == "name":
        return f"the record{_in(problem.field)} is now called {new}", f"keep the class name {old}"
    where = f"field {problem.field}" if problem.field else "the value"
    if problem.kind == "rule":
        return f"{where} changed from {old} to {new}", f"keep {old}"
    return f"{where} changed from {old} to {new}", f"keep {old}, or add a new field with a default"


def _in(path: str) -> str:
    return f" in field {path}" if path else ""
