"""Whether a pipeline can go on from its checkpoint: the same topics, unread records still there, code that fits.

What does not fit stops the pipeline, and a person decides: trying again would change nothing, and going on
would lose records without a word.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gearshift import tables
from gearshift.definitions import Pipeline, Table
from gearshift.errors import BrokerUnreachableError, ContinuityError
from gearshift.pipelines.checkpoint import Checkpoint, Offsets, open_folder
from gearshift.pipelines.engine import Engine
from gearshift.pipelines.ledger import FILE as LEDGER
from gearshift.pipelines.ledger import SPARK, Ledger
from gearshift.pipelines.origin import Origin, target_of
from gearshift.topics import Admin

_LOOK_EVERY = 5.0  # seconds between looks at the topics' ids while a query runs
_SHOWN = 5

Place = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Records of a partition that cannot be read any more: from `start` up to `end`, where reading can go on."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def count(self) -> int:
        """How many records: known where retention took them, not where the brokers lost the end of a partition."""
        return max(0, self.end - self.start)

    def __str__(self) -> str:
        where = f"topic {self.topic} partition {self.partition}"
        if self.end < self.start:
            return f"{where} ends at offset {self.end}, but was read up to {self.start}"
        return f"{where} offsets {self.start} to {self.end - 1} ({self.count:,} records)"


def losses(starts: Offsets, begins: Mapping[Place, int], ends: Mapping[Place, int]) -> list[Loss]:
    """What lies between where reading would go on and what the brokers still have.

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
    """The topics that are no longer those the checkpoint has read."""
    known = origin.topics if origin is not None else {}
    return [name for name, id_ in ids.items() if id_ and (known.get(name) or id_) != id_]


def topic_ids(admin: Admin, names: list[str]) -> dict[str, str]:
    """The ids of the topics that exist among these."""
    return {name: state.id for name, state in admin.describe(names).items()}


class Continuity:
    """Compares one pipeline of a running app with its checkpoint, at every start and while it runs."""

    def __init__(self, engine: Engine, pipeline: Pipeline, ledger: Ledger) -> None:
        self.state: tuple[str, ...] | None = None
        """What planning says the pipeline keeps from batch to batch."""
        self._engine = engine
        self._pipeline = pipeline
        self._ledger = ledger
        self._folder = open_folder(engine.folder_of(pipeline))
        self._names = sorted({topic.name for topic in pipeline.topics.values()})
        self._look_again = 0.0

    @property
    def writer(self) -> str:
        """Who a table takes this pipeline's batches from; a checkpoint that is born anew is another writer."""
        origin = Origin.read(self._folder)
        name = origin.writer if origin is not None else None
        return f"{name or self._engine.query_name(self._pipeline)}.{self._ledger.checkpoint.query_id()}"

    def require(self) -> None:
        """Raise ContinuityError if the query cannot go on; otherwise note what it goes on with."""
        if not self._names:
            return
        admin = self._engine.admin
        ids = {name: state.id for name, state in admin.require(self._names).items()}
        origin = Origin.read(self._folder)
        starts = self._ledger.checkpoint.next_offsets()
        if starts:
            if again := recreated(origin, ids):
                raise self._recreated(again)
            if lost := losses(starts, admin.begin_offsets(self._names), admin.end_offsets(self._names)):
                raise self._lost(lost)
            self._require_newest_checkpoint()
        now = replace(origin or Origin(), topics=ids, target=target_of(self._pipeline), state=self.state)
        if now != origin:
            now.write(self._folder)

    def changed(self) -> ContinuityError | None:
        """Why a running query must stop: a topic of it was deleted and created again. Asks at most every few seconds."""
        if not self._names or time.monotonic() < self._look_again:
            return None
        self._look_again = time.monotonic() + _LOOK_EVERY
        try:
            again = recreated(Origin.read(self._folder), topic_ids(self._engine.admin, self._names))
        except BrokerUnreachableError:
            return None
        return self._recreated(again) if again else None

    def _require_newest_checkpoint(self) -> None:
        """Refuse an older copy of the checkpoint: its next batches would have numbers that the table has already."""
        target = self._pipeline.target
        if not isinstance(target, Table):
            return
        last = tables.last_batch(self._engine.table_uri(target), self.writer)
        planned = max(self._ledger.checkpoint.planned(), default=-1)
        if last is not None and last > planned:
            raise ContinuityError(
                f"table {target.name} has batch {last} of this checkpoint, which ends at batch {planned}: "
                "it is an older copy, and its next batches would be taken for written",
                hint=f"put the newest checkpoint back, or start over with {command('reset', self._engine, self._pipeline)}",
                pipeline=self._pipeline.name,
            )

    def _recreated(self, names: list[str]) -> ContinuityError:
        return ContinuityError(
            f"topic {names[0]} was deleted and created again: offsets no longer mean the same records",
            hint=f"stop the app, then go on with the first record of the new topic: {command('resume', self._engine, self._pipeline)} --skip-lost",
            pipeline=self._pipeline.name,
            topic=names[0],
        )

    def _lost(self, lost: list[Loss]) -> ContinuityError:
        shown = "; ".join(str(loss) for loss in lost[:_SHOWN])
        more = f"; and of {len(lost) - _SHOWN} more partitions" if len(lost) > _SHOWN else ""
        return ContinuityError(
            f"{sum(loss.count for loss in lost):,} unread records are gone from Kafka: {shown}{more}",
            hint=f"stop the app, then accept the loss and go on after it: {command('resume', self._engine, self._pipeline)} --skip-lost",
            pipeline=self._pipeline.name,
            topic=lost[0].topic,
        )


def command(verb: str, engine: Engine, pipeline: Pipeline) -> str:
    """A command for this pipeline, as a user types it."""
    return f"gearshift {verb} {engine.query_name(pipeline)}"


def require_code(engine: Engine, pipeline: Pipeline, state: tuple[str, ...]) -> None:
    """Raise ContinuityError if the code is not what the pipeline's checkpoint was made with."""
    folder = open_folder(engine.folder_of(pipeline))
    ledger = Ledger(folder, engine.graph.app, pipeline.name)
    origin = Origin.read(folder)
    if origin is None and not ledger.stretches:
        _require_new(engine, pipeline)
    reads, read = {topic.name for topic in pipeline.topics.values()}, topics_read(ledger.checkpoint)
    if not read:
        return
    where = pipeline.defined_at
    reset = command("reset", engine, pipeline)
    if reads != read:
        raise ContinuityError(
            f"its checkpoint has read {_named(read)}, but the code reads {_named(reads)}",
            hint=f"give the new source a pipeline of its own, or start over with {reset}",
            pipeline=pipeline.name,
            file=where.file,
            line=where.line,
        )
    changes: list[str] = []
    if origin is not None and origin.target not in (None, target_of(pipeline)):
        changes.append(f"it wrote to {origin.target} and now writes to {target_of(pipeline)}")
    if origin is not None and origin.state not in (None, state):
        changes.append(f"it keeps {_kept(origin.state)}, but the code asks for {_kept(state)}")
    if changes:
        raise ContinuityError(
            f"the code no longer fits the pipeline's checkpoint: {'; '.join(changes)}",
            hint=f"start over with {reset}, or, if the checkpoint means the same under the new code, "
            f"go on with {command('resume', engine, pipeline)} --accept-change",
            pipeline=pipeline.name,
            file=where.file,
            line=where.line,
        )


def topics_read(checkpoint: Checkpoint) -> set[str]:
    """The topics that a checkpoint has offsets of."""
    planned = checkpoint.planned()
    logged = checkpoint.batch(planned[-1]) if planned else None
    return set(logged.ends) if logged is not None else set()


def _require_new(engine: Engine, pipeline: Pipeline) -> None:
    """Refuse a pipeline that seems to be a known one under another name: it would read everything again."""
    root = open_folder(f"{engine.settings.checkpoints_uri}/{engine.graph.app}")
    reads = {topic.name for topic in pipeline.topics.values()}
    for name in sorted(root.names("")):
        if name in engine.graph.pipelines or not reads or root.read(f"{name}/{LEDGER}") is None:
            continue
        uri = f"{engine.settings.checkpoints_uri}/{engine.graph.app}/{name}"
        origin = Origin.read(open_folder(uri))
        same_target = origin is None or origin.target in (None, target_of(pipeline))
        if same_target and topics_read(Checkpoint(open_folder(f"{uri}/{SPARK}"))) == reads:
            where = pipeline.defined_at
            old = f"{engine.graph.app}.{name}"
            raise ContinuityError(
                f"pipeline {pipeline.name} looks like {name} renamed: the app no longer declares {name}, "
                f"which read {_named(reads)} into {target_of(pipeline)}",
                hint=f"go on where it ended with gearshift rename {old} {pipeline.name}, "
                f"or read everything again with {command('reset', engine, pipeline)}",
                pipeline=pipeline.name,
                file=where.file,
                line=where.line,
            )


def _named(topics: set[str]) -> str:
    return f"topic{'s' if len(topics) > 1 else ''} {', '.join(sorted(topics))}" if topics else "no topic"


def _kept(state: tuple[str, ...] | None) -> str:
    return f"state of {' and '.join(state)}" if state else "no state"
