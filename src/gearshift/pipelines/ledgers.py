"""Finds the ledgers under the checkpoints' folder."""

from __future__ import annotations

from gearshift.pipelines.checkpoint import open_folder
from gearshift.pipelines.interval_log import FOLDER
from gearshift.pipelines.ledger import FILE, Ledger


def find_ledgers(checkpoints_uri: str) -> list[Ledger]:
    """The ledger of every pipeline that ever ran, by app and name."""
    root = open_folder(checkpoints_uri)
    return [
        Ledger(open_folder(f"{checkpoints_uri}/{app}/{name}"), app, name)
        for app in sorted(root.names(""))
        for name in sorted(root.names(app))
        if root.read(f"{app}/{name}/{FILE}") is not None or root.names(f"{app}/{name}/{FOLDER}")
    ]
