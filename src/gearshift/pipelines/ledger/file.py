"""Reads and writes the ledger's file; a damaged one is refused, since resuming from it would prove nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from gearshift.errors import LedgerError
from gearshift.gearbox.measurements import Hold
from gearshift.pipelines.dead_letters.pending import Pending, pending_from
from gearshift.pipelines.ledger.checkpoint import Offsets
from gearshift.pipelines.ledger.decisions import Decided, read_hold
from gearshift.pipelines.ledger.runs import Batch, Run, batch_from, offsets_from, run_from
from gearshift.pipelines.ledger.scalings import Scaling
from gearshift.storage.folders import Folder

FILE = "ledger.json"
PREVIOUS = "ledger.previous.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The content of a ledger's file."""

    runs: list[Run] = field(default_factory=list[Run])
    recent: list[Batch] = field(default_factory=list[Batch])
    pending: list[Pending] = field(default_factory=list[Pending])
    again_until: Offsets = field(default_factory=dict[str, dict[int, int]])
    query_id: str | None = None
    hold: Hold | None = None
    decisions: list[Decided] = field(default_factory=list[Decided])
    scalings: list[Scaling] = field(default_factory=list[Scaling])


def read(folder: Folder, app: str, pipeline: str) -> Content:
    """The ledger in a folder, empty if there is no file; LedgerError if the file is damaged."""
    text = folder.read(FILE)
    if text is None:
        return Content()
    try:
        kept: dict[str, Any] = json.loads(text)
        runs = kept["runs"] if "runs" in kept else kept["stretches"]  # older ledgers
        return Content(
            runs=[run_from(entry) for entry in runs],
            recent=[batch_from(entry) for entry in kept["recent"]],
            pending=[pending_from(entry) for entry in kept.get("pending", [])],
            again_until=offsets_from(kept.get("again_until", {})),
            query_id=kept["query_id"],
            hold=read_hold(kept.get("hold")),
            decisions=[Decided.read(entry) for entry in kept.get("decisions", [])],
            scalings=[Scaling.read(entry) for entry in kept.get("scalings", [])],
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(folder, app, pipeline, text, error) from None


def write(folder: Folder, ledger: dict[str, Any]) -> None:
    """Replace the ledger's file atomically."""
    folder.write(FILE, json.dumps(ledger, indent=1))


def write_previous(folder: Folder, ledger: dict[str, Any]) -> None:
    """Keep a copy of the ledger, to restore when its file is damaged."""
    folder.write(PREVIOUS, json.dumps(ledger, indent=1))


def _damaged(folder: Folder, app: str, pipeline: str, text: str, error: Exception) -> LedgerError:
    if not text.strip():
        why = "it is empty"
    elif isinstance(error, ValueError):
        why = f"{error}"
    else:
        why = f"it is not a ledger of this version of Gearshift ({type(error).__name__}: {error})"
    previous = folder.place(PREVIOUS) if folder.read(PREVIOUS) is not None else None
    copy = f"copy {previous} over it; or " if previous else ""
    return LedgerError(
        f"the ledger {folder.place(FILE)} is damaged: {why}",
        hint=f"{copy}move it away: the next run rebuilds the ledger from the batches that Spark's checkpoint still has, "
        "without the history before them",
        app=app,
        pipeline=pipeline,
    )
