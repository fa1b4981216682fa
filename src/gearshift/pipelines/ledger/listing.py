"""Finds the ledgers under the checkpoints' folder."""

from __future__ import annotations

from gearshift.errors import DeliveryError, LedgerError
from gearshift.pipelines.intervals.log import FOLDER
from gearshift.pipelines.ledger.file import FILE
from gearshift.pipelines.ledger.ledger import Ledger
from gearshift.storage.folders import open_folder


def find_ledgers(checkpoints_uri: str, damaged: list[LedgerError] | None = None) -> list[Ledger]:
    """The ledgers of all pipelines, sorted by app and name; errors of damaged ones are appended to the list, or raised."""
    root = open_folder(checkpoints_uri)
    found: list[Ledger] = []
    for app in sorted(root.names("")):
        for name in sorted(root.names(app)):
            if name.startswith("."):
                continue  # the app's lease
            if root.read(f"{app}/{name}/{FILE}") is None and not root.names(f"{app}/{name}/{FOLDER}"):
                continue
            try:
                found.append(Ledger(open_folder(f"{checkpoints_uri}/{app}/{name}"), app, name))
            except LedgerError as error:
                if damaged is None:
                    raise
                damaged.append(error)
    return found


def require_no_mirror(group: str, checkpoints_uri: str) -> None:
    """Raise for the group of a pipeline: it only mirrors the checkpoint for Kafka's tools, so a reset has no effect."""
    for ledger in find_ledgers(checkpoints_uri):
        if group == f"{ledger.app}.{ledger.pipeline}":
            raise DeliveryError(
                f"group {group} mirrors the pipeline's checkpoint, from which the pipeline resumes",
                hint=f"use gearshift reset {group}",
                pipeline=ledger.pipeline,
            )


def versions_in_use(checkpoints_uri: str) -> dict[str, set[int]]:
    """The table versions that running queries read, by table name; a vacuum keeps their files."""
    found: dict[str, set[int]] = {}
    for ledger in find_ledgers(checkpoints_uri, []):
        if ledger.last is not None and ledger.last.ended is None:
            for table, version in ledger.last.tables.items():
                found.setdefault(table, set()).add(version)
    return found
