"""Dead letters as plain data."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gearshift.topics.dead_letters.letters import SUFFIX, Letter, Summary, preview

if TYPE_CHECKING:
    from gearshift.topics.dead_letters.replay import Settled


def newest_letters(letters: Iterable[Letter], limit: int) -> tuple[int, list[Letter]]:
    """The number of letters, and the newest of them, newest first."""
    count = 0

    def counted() -> Iterable[Letter]:
        nonlocal count
        for letter in letters:
            count += 1
            yield letter

    newest = heapq.nlargest(limit, counted(), key=_age)
    return count, newest


def causes_data(name: str, causes: list[Summary]) -> dict[str, Any]:
    """The open letters of a dead-letter topic by cause."""
    oldest = [cause.oldest for cause in causes if cause.oldest is not None]
    newest = [cause.newest for cause in causes if cause.newest is not None]
    return {
        "topic": name.removesuffix(SUFFIX),
        "dead_letters": name,
        "open": sum(cause.count for cause in causes),
        "oldest": min(oldest).isoformat() if oldest else None,
        "newest": max(newest).isoformat() if newest else None,
        "causes": [
            {
                "failed_in": cause.failed_in,
                "exception": cause.exception,
                "reason": cause.reason,
                "example": cause.example,
                "open": cause.count,
            }
            for cause in causes
        ],
    }


def letter_data(letter: Letter) -> dict[str, Any]:
    """A letter, with previews of its key and value."""
    return {
        "partition": None if letter.origin is None else letter.origin[0],
        "offset": None if letter.origin is None else letter.origin[1],
        "row": letter.row,
        "result_for": letter.result_for,
        "failed_in": letter.failed_in,
        "delivery": letter.delivery,
        "group_id": letter.group_id,
        "pipeline": letter.pipeline,
        "stage": letter.stage,
        "exception": letter.exception,
        "reason": letter.reason,
        "key": None if letter.key is None else preview(letter.key),
        "bytes": letter.size,
        "value": None if letter.value is None else preview(letter.value, 200),
        "written": letter.written.isoformat() if letter.written else None,
        "place": list(letter.position),
    }


def discarded_data(done: Settled, *, dry_run: bool) -> dict[str, Any]:
    """The result of a discard."""
    return {"topic": done.topic, "letters": done.letters, "done": not dry_run}


def replayed_data(done: Settled, *, dry_run: bool) -> dict[str, Any]:
    """The result of a replay."""
    return {
        **discarded_data(done, dry_run=dry_run),
        "to_topic": done.to_topic,
        "to_deliveries": done.to_deliveries,
        "rows": done.rows,
        "results": done.results,
    }


def _age(letter: Letter) -> tuple[datetime, tuple[int, int]]:
    return letter.written or datetime.min.replace(tzinfo=UTC), letter.position
