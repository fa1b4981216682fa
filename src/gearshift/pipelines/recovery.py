"""What a person can do with a stopped pipeline: reset it, accept a loss or a change, or rename it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gearshift.errors import DefinitionError, LedgerError
from gearshift.pipelines.check.continuity import Loss, losses, recreated, topics_read
from gearshift.pipelines.check.origin import Origin
from gearshift.pipelines.ledger.checkpoint import Checkpoint, Offsets
from gearshift.pipelines.ledger.ledger import SPARK, Ledger
from gearshift.pipelines.ledger.reconciliation import reconcile
from gearshift.storage.folders import move_folder, open_folder
from gearshift.topics import Admin

_ARCHIVE = ".archive"  # next to the apps' folders; an app's name cannot begin with a dot


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A pipeline's folder: its checkpoint, its ledger and their origin."""

    checkpoints_uri: str
    app: str
    pipeline: str

    @property
    def uri(self) -> str:
        """The folder's URI."""
        return f"{self.checkpoints_uri}/{self.app}/{self.pipeline}"

    @property
    def checkpoint(self) -> Checkpoint:
        """Spark's checkpoint."""
        return Checkpoint(open_folder(f"{self.uri}/{SPARK}"))

    @property
    def ledger(self) -> Ledger:
        """The ledger; LedgerError if it is damaged."""
        return Ledger(open_folder(self.uri), self.app, self.pipeline)

    @property
    def origin(self) -> Origin:
        """What the checkpoint was created from; LedgerError if that cannot be read."""
        return Origin.read(open_folder(self.uri)) or Origin()

    @property
    def target(self) -> str | None:
        """The pipeline's target, if it is known."""
        try:
            return self.origin.target
        except LedgerError:
            return None

    @property
    def topics(self) -> list[str]:
        """The topics it has read."""
        checkpoint = self.checkpoint
        return sorted(topics_read(checkpoint) or checkpoint.first_offsets())

    @property
    def exists(self) -> bool:
        """Whether the folder has any file."""
        return bool(open_folder(self.uri).names(""))

    def __str__(self) -> str:
        return f"{self.app}.{self.pipeline}"


def find(checkpoints_uri: str, name: str, *, new: bool = False) -> Kept:
    """The pipeline of this name, `PIPELINE` or `APP.PIPELINE`; with `new`, the latter may have no folder yet."""
    app, _, pipeline = name.rpartition(".")
    root = open_folder(checkpoints_uri)
    known = [
        Kept(checkpoints_uri=checkpoints_uri, app=each, pipeline=found)
        for each in sorted(root.names(""))
        for found in sorted(root.names(each))
        if each != _ARCHIVE and not found.startswith(".")  # such as the app's lease
    ]
    found = [kept for kept in known if kept.pipeline == pipeline and app in ("", kept.app)]
    if len(found) == 1:
        return found[0]
    if app and new:
        return Kept(checkpoints_uri=checkpoints_uri, app=app, pipeline=pipeline)
    raise DefinitionError(
        f"several apps have a pipeline {name}" if found else f"no pipeline {name!r} has run here",
        hint=f"there {'is' if len(known) == 1 else 'are'} {', '.join(map(str, found or known)) or 'none'}",
    )


def start_over(kept: Kept, *, starts: Offsets) -> str | None:
    """Move a pipeline's folder to the archive, so that it starts over; returns the archived URI, if there was a folder."""
    aside = _aside(kept) if kept.exists else None
    if aside is not None:
        move_folder(kept.uri, aside)
    Origin(starts=starts).write(open_folder(kept.uri))
    return aside


def rename(kept: Kept, name: str) -> Kept:
    """Give a pipeline's folder to the pipeline of another name in the same app."""
    fresh = replace(kept, pipeline=name)
    if fresh.ledger.runs:
        raise DefinitionError(
            f"pipeline {fresh} has run already", hint=f"archive its checkpoint with gearshift reset {fresh}"
        )
    if fresh.exists:
        move_folder(fresh.uri, _aside(fresh))
    origin = kept.origin
    # Tables know its batches by the old name.
    replace(origin, writer=origin.writer or str(kept)).write(open_folder(kept.uri))
    move_folder(kept.uri, fresh.uri)
    return fresh


def accept_change(kept: Kept) -> None:
    """Accept the state and the target of the current code."""
    replace(kept.origin, state=None, target=None).write(open_folder(kept.uri))


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """What a pipeline resumes without."""

    recreated: list[str]
    losses: list[Loss]

    def __str__(self) -> str:
        again = [f"topic {name} was deleted and created again" for name in self.recreated]
        return "; ".join([*again, *map(str, self.losses)])


def skip_lost(kept: Kept, admin: Admin) -> Skipped:
    """Move a checkpoint's offsets to the first available records, keep its state, and record the loss in the ledger."""
    checkpoint, origin, names = kept.checkpoint, kept.origin, kept.topics
    ids = {name: state.id for name, state in admin.require(names).items()}
    begins = admin.begin_offsets(names)
    again = recreated(origin, ids)
    lost = [
        loss
        for loss in losses(checkpoint.next_offsets(), begins, admin.end_offsets(names))
        if loss.topic not in again
    ]
    skipped = Skipped(recreated=again, losses=lost)
    if not again and not lost:
        return skipped

    def moved(offsets: Offsets) -> Offsets:
        result = {topic: dict(partitions) for topic, partitions in offsets.items()}
        for topic in again:
            if topic in result:
                result[topic] = {
                    partition: begin for (name, partition), begin in begins.items() if name == topic
                }
        for loss in lost:
            if loss.topic in result:
                at = result[loss.topic].get(loss.partition, 0)
                result[loss.topic][loss.partition] = max(at, loss.end) if loss.count else loss.end
        return result

    ledger = kept.ledger
    reconcile(ledger)
    aside = open_folder(f"{_aside(kept)}/{SPARK}")
    ends = moved(checkpoint.next_offsets())
    checkpoint.move_offsets(moved, aside)
    replace(origin, topics={**origin.topics, **ids}).write(open_folder(kept.uri))
    ledger.accept(ends, sum(loss.count for loss in lost), f"accepted: {skipped}", datetime.now(UTC))
    return skipped


def _aside(kept: Kept) -> str:
    return (
        f"{kept.checkpoints_uri}/{_ARCHIVE}/{kept.app}/{kept.pipeline}-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    )
