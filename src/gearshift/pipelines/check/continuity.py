"""Whether a pipeline can resume from its checkpoint: the same topics, no unread records lost, matching code.

If not, the pipeline stops and a person decides: a retry would change nothing, and resuming would lose records silently.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gearshift import tables
from gearshift.definitions import Pipeline, Table
from gearshift.errors import BrokerUnreachableError, ContinuityError
from gearshift.pipelines.check.origin import Origin, target_of
from gearshift.pipelines.context import Context
from gearshift.pipelines.ledger.checkpoint import Checkpoint, Offsets
from gearshift.pipelines.ledger.file import FILE as LEDGER
from gearshift.pipelines.ledger.ledger import SPARK, Ledger
from gearshift.storage.folders import open_folder
from gearshift.topics import Admin

_CHECK_EVERY = 5.0  # seconds between checks of the topics' ids while a query runs
_SHOWN = 5

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Records of a partition that are no longer available: from `start` up to `end`, where reading can resume."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def count(self) -> int:
        """The number of records if retention removed them; 0 if the brokers lost the end of a partition."""
        return max(0, self.end - self.start)

    def __str__(self) -> str:
        where = f"topic {self.topic} partition {self.partition}"
        if self.end < self.start:
            return f"{where} ends at offset {self.end}, but was read up to {self.start}"
        return f"{where} offsets {self.start} to {self.end - 1} ({self.count:,} records)"


def losses(
    starts: Offsets, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[Loss]:
    """The records between the next offsets and those that the brokers still have.

    >>> [str(loss) for loss in losses({"t": {0: 5}}, {("t", 0): 7, ("t", 1): 0}, {("t", 0): 9, ("t", 1): 3})]
    ['topic t partition 0 offsets 5 to 6 (2 records)']
    """
    found: list[Loss] = []
    for (topic, partition), begin in sorted(begins.items()):
        start = starts.get(topic, {}).get(partition, 0)
        end = ends[topic, partition]
        if start < begin or start > end:
            found.append(
                Loss(topic=topic, partition=partition, start=start, end=begin if start < begin else end)
            )
    return found


def recreated(origin: Origin | None, ids: Mapping[str, str]) -> list[str]:
    """The topics that were deleted and recreated since the checkpoint read them."""
    known = origin.topics if origin is not None else {}
    return [name for name, id_ in ids.items() if id_ and (known.get(name) or id_) != id_]


def topic_ids(admin: Admin, names: list[str]) -> dict[str, str]:
    """The ids of those topics that exist."""
    return {name: state.id for name, state in admin.describe(names).items()}


class Continuity:
    """Compares one pipeline of a running app with its checkpoint, at every start and while it runs."""

    def __init__(
        self, context: Context, pipeline: Pipeline, ledger: Ledger, state: tuple[str, ...] | None
    ) -> None:
        self._state = state
        self._context = context
        self._pipeline = pipeline
        self._ledger = ledger
        self._folder = open_folder(context.folder_of(pipeline))
        self._names = sorted({topic.name for topic in pipeline.topics.values()})
        self._check_again = 0.0
        self.same_until_ms = 0
        """When the topics were last known to be those that the checkpoint has read, in epoch milliseconds."""

    @property
    def writer(self) -> str:
        """The name under which a table takes this pipeline's batches; a new checkpoint is a new writer."""
        origin = Origin.read(self._folder)
        name = origin.writer if origin is not None else None
        return f"{name or self._context.query_name(self._pipeline)}.{self._ledger.checkpoint.query_id()}"

    def require(self) -> None:
        """Raise ContinuityError if the query cannot resume; otherwise record what it resumes with."""
        if not self._names:
            return
        admin, asked_ms = self._context.admin, int(time.time() * 1000)
        ids = {name: state.id for name, state in admin.require(self._names).items()}
        origin = Origin.read(self._folder)
        starts = self._ledger.checkpoint.next_offsets()
        if starts:
            if again := recreated(origin, ids):
                raise self._recreated(again)
            if lost := losses(starts, admin.begin_offsets(self._names), admin.end_offsets(self._names)):
                raise self._lost(lost)
            self._require_newest_checkpoint()
        now = replace(origin or Origin(), topics=ids, target=target_of(self._pipeline), state=self._state)
        if now != origin:
            now.write(self._folder)
        self.same_until_ms = asked_ms

    def changed(self) -> ContinuityError | None:
        """Why a running query must stop: one of its topics was recreated. Checks at most every few seconds."""
        if not self._names or time.monotonic() < self._check_again:
            return None
        self._check_again = time.monotonic() + _CHECK_EVERY
        try:
            self.require_same_topics()
        except ContinuityError as error:
            return error
        except BrokerUnreachableError:
            return None
        return None

    def require_same_topics(self) -> None:
        """Raise if one of the topics was recreated: what was just read of it may be records of the new one."""
        asked_ms = int(time.time() * 1000)
        again = recreated(Origin.read(self._folder), topic_ids(self._context.admin, self._names))
        if again:
            raise self._recreated(again)
        self.same_until_ms = asked_ms

    def _require_newest_checkpoint(self) -> None:
        """Raise for an older copy of the checkpoint: the table already has batches with its next numbers."""
        target = self._pipeline.target
        if not isinstance(target, Table):
            return
        last = tables.last_batch(self._context.table_uri(target), self.writer)
        planned = max(self._ledger.checkpoint.planned(), default=-1)
        if last is not None and last > planned:
            raise ContinuityError(
                f"table {target.name} has batch {last} of this checkpoint, which ends at batch {planned}: "
                "it is an older copy, and its next batches would be skipped as already written",
                hint=f"restore the newest checkpoint, or start over with {command('reset', self._context, self._pipeline)}",
                pipeline=self._pipeline.name,
            )

    def _recreated(self, names: list[str]) -> ContinuityError:
        return ContinuityError(
            f"topic {names[0]} was deleted and created again: its offsets no longer refer to the same records",
            hint=f"stop the app, then resume at the first record of the new topic: {command('resume', self._context, self._pipeline)} --skip-lost",
            pipeline=self._pipeline.name,
            topic=names[0],
        )

    def _lost(self, lost: list[Loss]) -> ContinuityError:
        shown = "; ".join(str(loss) for loss in lost[:_SHOWN])
        more = f"; and in {len(lost) - _SHOWN} more partitions" if len(lost) > _SHOWN else ""
        return ContinuityError(
            f"{sum(loss.count for loss in lost):,} unread records are no longer in Kafka: {shown}{more}",
            hint=f"stop the app, then accept the loss and resume after it: {command('resume', self._context, self._pipeline)} --skip-lost",
            pipeline=self._pipeline.name,
            topic=lost[0].topic,
        )


def command(verb: str, context: Context, pipeline: Pipeline) -> str:
    """A command for this pipeline, as a user types it."""
    return f"gearshift {verb} {context.query_name(pipeline)}"


def require_code(context: Context, pipeline: Pipeline, state: tuple[str, ...]) -> None:
    """Raise ContinuityError if the code does not match the pipeline's checkpoint."""
    folder = open_folder(context.folder_of(pipeline))
    ledger = Ledger(folder, context.graph.app, pipeline.name)
    origin = Origin.read(folder)
    if origin is None and not ledger.runs:
        _require_new(context, pipeline)
    reads, read = {topic.name for topic in pipeline.topics.values()}, topics_read(ledger.checkpoint)
    if not read:
        return
    where = pipeline.defined_at
    reset = command("reset", context, pipeline)
    if reads != read:
        raise ContinuityError(
            f"its checkpoint has read {_named(read)}, but the code reads {_named(reads)}",
            hint=f"declare a new pipeline for the new source, or start over with {reset}",
            pipeline=pipeline.name,
            file=where.file,
            line=where.line,
        )
    changes: list[str] = []
    if origin is not None and origin.target not in (None, target_of(pipeline)):
        changes.append(f"it wrote to {origin.target} and now writes to {target_of(pipeline)}")
    if origin is not None and origin.state not in (None, state):
        changes.append(f"it has {_kept(origin.state)}, but the code needs {_kept(state)}")
    if changes:
        raise ContinuityError(
            f"the code no longer matches the pipeline's checkpoint: {'; '.join(changes)}",
            hint=f"start over with {reset}, or, if the checkpoint is still valid for the new code, "
            f"resume with {command('resume', context, pipeline)} --accept-change",
            pipeline=pipeline.name,
            file=where.file,
            line=where.line,
        )


def topics_read(checkpoint: Checkpoint) -> set[str]:
    """The topics in a checkpoint's latest offsets."""
    planned = checkpoint.planned()
    logged = checkpoint.batch(planned[-1]) if planned else None
    return set(logged.ends) if logged is not None else set()


def _require_new(context: Context, pipeline: Pipeline) -> None:
    """Raise for a pipeline that seems to be a renamed one: it would read everything again."""
    root = open_folder(f"{context.settings.checkpoints_uri}/{context.graph.app}")
    reads = {topic.name for topic in pipeline.topics.values()}
    for name in sorted(root.names("")):
        if name in context.graph.pipelines or not reads or root.read(f"{name}/{LEDGER}") is None:
            continue
        uri = f"{context.settings.checkpoints_uri}/{context.graph.app}/{name}"
        origin = Origin.read(open_folder(uri))
        same_target = origin is None or origin.target in (None, target_of(pipeline))
        if same_target and topics_read(Checkpoint(open_folder(f"{uri}/{SPARK}"))) == reads:
            where = pipeline.defined_at
            old = f"{context.graph.app}.{name}"
            raise ContinuityError(
                f"pipeline {pipeline.name} looks like {name} renamed: the app no longer declares {name}, "
                f"which read {_named(reads)} into {target_of(pipeline)}",
                hint=f"resume where it ended with gearshift rename {old} {pipeline.name}, "
                f"or read everything again with {command('reset', context, pipeline)}",
                pipeline=pipeline.name,
                file=where.file,
                line=where.line,
            )


def _named(topics: set[str]) -> str:
    return f"topic{'s' if len(topics) > 1 else ''} {', '.join(sorted(topics))}" if topics else "no topic"


def _kept(state: tuple[str, ...] | None) -> str:
    return f"state of {' and '.join(state)}" if state else "no state"
