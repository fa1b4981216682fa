"""What a pipeline's checkpoint was created from, stored next to the ledger: topic ids, target and state."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from gearshift.definitions import Pipeline, Table
from gearshift.errors import LedgerError
from gearshift.pipelines.ledger.checkpoint import Offsets
from gearshift.storage.folders import Folder

FILE = "origin.json"
KEYED = " with key "


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What the offsets and the state in a checkpoint belong to; None or empty if unknown."""

    topics: dict[str, str] = field(default_factory=dict[str, str])
    """The id of each source topic; a recreated topic has another one."""
    target: str | None = None
    state: tuple[str, ...] | None = None
    """The state that the pipeline keeps between batches, one line per operator."""
    writer: str | None = None
    """The name under which tables know its batches, if it was renamed."""
    starts: Offsets = field(default_factory=dict[str, dict[int, int]])
    """Where a checkpoint without batches begins to read; by default at the earliest offset."""

    @classmethod
    def read(cls, folder: Folder) -> Origin | None:
        """The origin in a pipeline's folder, if there is one."""
        text = folder.read(FILE)
        if text is None:
            return None
        try:
            kept: dict[str, Any] = json.loads(text)
            return cls(
                topics=kept["topics"],
                target=kept["target"],
                state=tuple(kept["state"]) if kept["state"] is not None else None,
                writer=kept["writer"],
                starts={
                    topic: {int(partition): offset for partition, offset in partitions.items()}
                    for topic, partitions in kept["starts"].items()
                },
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LedgerError(
                f"{folder.place(FILE)} cannot be read: {error}",
                hint="restore it from a copy, or remove it to accept the topics and the code as they are now",
            ) from None

    def write(self, folder: Folder) -> None:
        """Write it to a pipeline's folder."""
        folder.write(FILE, json.dumps(asdict(self), indent=1))


def target_of(pipeline: Pipeline) -> str:
    """A pipeline's target as text."""
    target = pipeline.target
    if not isinstance(target, Table):
        return f"topic {target.name}"
    return f"table {target.name}{KEYED}{', '.join(target.key)}" if target.key else f"table {target.name}"
