"""Detects changes of a table's rows or columns since a version; compaction and vacuum change neither."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from urllib.parse import unquote

from gearshift.storage.location import StorageOptions
from gearshift.storage.object_store import Store
from gearshift.tables.read.snapshot import open_table


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedCommit:
    """The files whose rows one commit added or removed, and when it was made, by the writer's clock."""

    version: int
    at: datetime | None
    added: tuple[str, ...]
    removed: tuple[str, ...]


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


def commits_back_to(
    uri: str, version: int, *, most: int, storage_options: StorageOptions = None
) -> list[LoggedCommit]:
    """The commits from the newest back to a version; fewer where the log was cleaned up, and `most` at most."""
    newest = newest_version(uri, storage_options=storage_options)
    return list(islice(_back(Store(uri, storage_options), newest, version), most))


def _back(store: Store, newest: int, version: int) -> Iterator[LoggedCommit]:
    for number in range(newest, version - 1, -1):
        text = store.read_text(f"_delta_log/{number:020}.json")
        if text is None:
            return
        yield _commit(number, [json.loads(line) for line in text.splitlines() if line.strip()])


def _commit(version: int, actions: list[dict[str, Any]]) -> LoggedCommit:
    """What a commit's actions did to rows; compaction moves rows and does nothing to them.

    >>> _commit(3, [{"add": {"path": "a%20b"}}, {"remove": {"path": "c", "dataChange": False}}])
    LoggedCommit(version=3, at=None, added=('a b',), removed=())
    """
    made = [action["commitInfo"].get("timestamp") for action in actions if "commitInfo" in action]
    changed = {
        kind: tuple(
            unquote(action[kind]["path"])
            for action in actions
            if kind in action and action[kind].get("dataChange", True)
        )
        for kind in ("add", "remove")
    }
    return LoggedCommit(
        version=version,
        at=datetime.fromtimestamp(made[0] / 1000, UTC) if made and made[0] else None,
        added=changed["add"],
        removed=changed["remove"],
    )


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
