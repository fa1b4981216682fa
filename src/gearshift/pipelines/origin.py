"""What a pipeline's checkpoint was made from, kept next to the ledger: topics by their id, the target, the state."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from gearshift.definitions import Pipeline, Table
from gearshift.errors import LedgerError
from gearshift.pipelines.checkpoint import Folder, Offsets

FILE = "origin.json"
KEYED = " with key "


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What the offsets and the state in a checkpoint belong to; None or nothing where that is not known."""

    topics: dict[str, str] = field(default_factory=dict[str, str])
    """The id of each source topic: a topic that is deleted and created again has another one."""
    target: str | None = None
    state: tuple[str, ...] | None = None
    """What the pipeline keeps from batch to batch, a line for each operator."""
    writer: str | None = None
    """The name under which tables know its batches, if it was renamed since."""
    starts: Offsets = field(default_factory=dict[str, dict[int, int]])
    """Where a checkpoint that has no batch yet begins to read; without an entry, at the earliest offset."""

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
                hint="put it back from a copy, or remove it: topics and code are then taken as they are now",
            ) from None

    def write(self, folder: Folder) -> None:
        """Keep it in a pipeline's folder."""
        folder.write(FILE, json.dumps(asdict(self), indent=1))


def target_of(pipeline: Pipeline) -> str:
    """A pipeline's target in words."""
    target = pipeline.target
    if not isinstance(target, Table):
        return f"topic {target.name}"
    return f"table {target.name}{KEYED}{', '.join(target.key)}" if target.key else f"table {target.name}"
