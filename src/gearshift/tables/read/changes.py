"""Detects changes of a table's rows or columns since a version; compaction and vacuum change neither."""

from __future__ import annotations

import json
from typing import Any

from gearshift.storage.location import StorageOptions
from gearshift.storage.object_store import Store
from gearshift.tables.read.snapshot import open_table


def newest_version(uri: str, *, storage_options: StorageOptions = None) -> int:
    """The number of the table's latest commit."""
    return open_table(uri, storage_options).version()


def changed_since(uri: str, version: int, *, storage_options: StorageOptions = None) -> bool:
    """Whether a commit after this version added or removed rows, or changed the columns."""
    newest = newest_version(uri, storage_options=storage_options)
    if newest < version:
        return True  # the table was dropped and created again
    store = Store(uri, storage_options)
    commits = (store.read_text(f"_delta_log/{number:020}.json") for number in range(version + 1, newest + 1))
    return any(_changes(commit) for commit in commits)


def _changes(commit: str | None) -> bool:
    """Whether a commit in Delta's log changes rows or columns; a commit that was cleaned up counts as a change.

    >>> _changes('{"add": {"path": "a", "dataChange": false}}\\n{"commitInfo": {}}'), _changes('{"metaData": {}}')
    (False, True)
    """
    if commit is None:
        return True
    for line in commit.splitlines():
        action: dict[str, Any] = json.loads(line) if line.strip() else {}
        if "metaData" in action:
            return True
        if any(action[kind].get("dataChange", True) for kind in ("add", "remove") if kind in action):
            return True
    return False
