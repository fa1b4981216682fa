"""Finds the ledgers under the checkpoints' folder."""

from __future__ import annotations

from gearshift.errors import LedgerError
from gearshift.pipelines.checkpoint import open_folder
from gearshift.pipelines.interval_log import FOLDER
from gearshift.pipelines.ledger import FILE, Ledger


def find_ledgers(checkpoints_uri: str, damaged: list[LedgerError] | None = None) -> list[Ledger]:
    """The ledger of every pipeline that ever ran, by app and name; damaged ones go to the list, or are raised."""
    root = open_folder(checkpoints_uri)
    found: list[Ledger] = []
    for app in sorted(root.names("")):
        for name in sorted(root.names(app)):
            if root.read(f"{app}/{name}/{FILE}") is None and not root.names(f"{app}/{name}/{FOLDER}"):
                continue
            try:
                found.append(Ledger(open_folder(f"{checkpoints_uri}/{app}/{name}"), app, name))
            except LedgerError as error:
                if damaged is None:
                    raise
                damaged.append(error)
    return found
