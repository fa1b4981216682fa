"""`gearshift reset` says what happens to the target before it does anything."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gearshift.cli.recovering import consequence
from gearshift.freshness import Gear
from gearshift.pipelines.check.origin import Origin
from gearshift.pipelines.recovery import Kept
from gearshift.storage.folders import open_folder


def kept(tmp_path: Path, target: str | None) -> Kept:
    found = Kept(checkpoints_uri=tmp_path.as_uri(), app="shop", pipeline="totals")
    Origin(target=target).write(open_folder(found.uri))
    return found


@pytest.mark.parametrize(
    ("target", "to", "words"),
    [
        (
            "topic large",
            "earliest",
            "topic large keeps its records and gets the same records again, so it will hold duplicates",
        ),
        (
            "table totals",
            "2026-01-31T12:00:00Z",
            "table totals keeps its rows and gets the rows from 2026-01-31T12:00:00Z on again, so it will hold duplicates",
        ),
        (
            "table totals with key minute",
            "earliest",
            "table totals with key minute gets the same rows again, which replace the existing ones",
        ),
        ("topic large", "latest", "topic large gets nothing again: what it has not read yet is skipped"),
        (None, "earliest", "its target gets everything again"),
    ],
)
def test_the_target_and_the_start_decide(tmp_path: Path, target: str | None, to: str, words: str) -> None:
    assert consequence(kept(tmp_path, target), to) == words


def test_intervals_replace_their_rows(tmp_path: Path) -> None:
    found = kept(tmp_path, "table bills")
    open_folder(found.uri).write("intervals/2026-01.json", "{}")
    assert (
        consequence(found, "earliest")
        == "table bills gets every interval again, each of which replaces its rows"
    )


def test_a_table_computed_from_tables_is_replaced(tmp_path: Path) -> None:
    found = kept(tmp_path, "table bills")
    ledger = found.ledger
    ledger.begin(Gear.BATCH, Gear.BATCH, "start", datetime(2026, 1, 1, tzinfo=UTC))
    ledger.runs[0].tables = {"history": 3}
    ledger.end(datetime(2026, 1, 1, tzinfo=UTC), None)
    assert consequence(found, "earliest") == "table bills is computed again and replaced"
