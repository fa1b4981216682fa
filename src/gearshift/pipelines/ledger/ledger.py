"""The ledger of a pipeline: which gear ran over which offsets, and the proof that nothing was lost in between.

A *run* is one query from start to stop in one gear. The ledger has one entry per run and is rewritten after every
batch, next to Spark's checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gearshift.freshness import Gear
from gearshift.gearbox.measurements import Hold
from gearshift.pipelines.dead_letters.pending import Pending, overlaps
from gearshift.pipelines.dead_letters.pending import as_json as pending_as_json
from gearshift.pipelines.intervals.log import Entry, Failure, IntervalLog
from gearshift.pipelines.ledger import file
from gearshift.pipelines.ledger.checkpoint import Checkpoint, Offsets
from gearshift.pipelines.ledger.decisions import KEPT, Decided, hold_as_json
from gearshift.pipelines.ledger.runs import Batch, Run, as_json, count_between, missing
from gearshift.pipelines.ledger.scalings import Scaling
from gearshift.storage.folders import Folder

__all__ = ["Batch", "Ledger", "Run", "count_between"]

SPARK = "spark"
_RECENT = 20  # batches kept individually: more than Spark can lose of its asynchronous commits


class Ledger:
    """The runs of one pipeline; raises LedgerError if the file is damaged."""

    def __init__(self, folder: Folder, app: str, pipeline: str) -> None:
        self.app = app
        self.pipeline = pipeline
        self.folder = folder
        kept = file.read(folder, app, pipeline)
        self.runs: list[Run] = kept.runs
        self.recent: list[Batch] = kept.recent
        self.pending: list[Pending] = kept.pending
        """Dead letters still to be written."""
        self.again_until: Offsets = kept.again_until
        """Offsets up to which records may be read again after an older copy of the checkpoint was restored."""
        self.query_id: str | None = kept.query_id
        self.hold: Hold | None = kept.hold
        """A person's shift, which the gearbox respects."""
        self.decisions: list[Decided] = kept.decisions
        """The gearbox's latest decisions."""
        self.scalings: list[Scaling] = kept.scalings
        """Changes of the number of shuffle partitions, begun before the state is moved."""

    @property
    def checkpoint(self) -> Checkpoint:
        """Spark's checkpoint next to this ledger."""
        return Checkpoint(_Subfolder(self.folder, SPARK))

    @property
    def intervals(self) -> list[Entry]:
        """The latest run of every interval, for a pipeline that has intervals."""
        return IntervalLog(self.folder).entries()

    @property
    def failed_intervals(self) -> list[Failure]:
        """The intervals whose latest run failed."""
        return IntervalLog(self.folder).failures()

    @property
    def last(self) -> Run | None:
        """The latest run."""
        return self.runs[-1] if self.runs else None

    @property
    def scaling(self) -> Scaling | None:
        """The scaling in progress."""
        last = self.scalings[-1] if self.scalings else None
        return last if last is not None and last.ended is None else None

    @property
    def last_batch(self) -> int:
        """The number of the latest batch; -1 before the first."""
        return max((run.last_batch for run in self.runs if run.last_batch is not None), default=-1)

    @property
    def gap(self) -> int:
        """Offsets covered by no run, or by two."""
        return sum(run.gap for run in self.runs)

    @property
    def lost(self) -> int:
        """Records that a person accepted as lost."""
        return sum(run.lost for run in self.runs)

    @property
    def replayed(self) -> int:
        """Records written to the target more than once, as far as counted."""
        return sum((run.replayed or 0) + run.retried for run in self.runs)

    @property
    def at_least(self) -> bool:
        """Whether more was replayed than could be counted."""
        return any(run.at_least for run in self.runs)

    @property
    def ends(self) -> Offsets:
        """The pipeline's position."""
        return next((run.ends for run in reversed(self.runs) if run.ends), Offsets())

    @property
    def letters(self) -> dict[str, int]:
        """Counts of records that could not be decoded, by outcome: written, lost or pending."""
        dead = sum(run.dead for run in self.runs)
        written = sum(run.letters for run in self.runs)
        lost = sum(run.letters_lost for run in self.runs)
        return {"observed": dead, "written": written, "lost": lost, "pending": dead - written - lost}

    def gear_to_run(self, declared: Gear) -> Gear:
        """The gear to restart in: the last verified one, unless the declaration has changed since."""
        verified = [run for run in self.runs if run.verified]
        if not verified or verified[-1].declared is not declared:
            return declared
        return verified[-1].gear

    def run_of(self, batch: int) -> Run | None:
        """The run that a batch belongs to."""
        for run in self.runs:
            if run.first_batch is not None and run.first_batch <= batch <= (run.last_batch or 0):
                return run
        return None

    def begin(
        self,
        gear: Gear,
        declared: Gear,
        why: str,
        now: datetime,
        *,
        stamped: bool = True,
        tables: Mapping[str, int] | None = None,
        schemas: Mapping[str, list[int]] | None = None,
        numbers: Mapping[str, float] | None = None,
    ) -> Run:
        """Record a new run, before its query starts."""
        self._close(now)
        if self.runs:
            file.write_previous(self.folder, self.as_json())
        run = Run(
            number=len(self.runs),
            gear=gear,
            declared=declared,
            why=why,
            began=now,
            numbers=dict(numbers or {}),
            stamped=stamped,
            tables=dict(tables or {}),
            schemas=dict(schemas or {}),
        )
        self.runs.append(run)
        self.save()
        return run

    def decide(self, decided: Decided) -> None:
        """Record a decision of the gearbox."""
        self.decisions = [*self.decisions, decided][-KEPT:]
        self.save()

    def scale(self, scaling: Scaling) -> None:
        """Record a scaling that begins, or how the one in progress ended."""
        others = self.scalings[:-1] if self.scaling is not None else self.scalings
        self.scalings = [*others, scaling]
        self.save()

    def accept(self, ends: Offsets, lost: int, why: str, now: datetime) -> None:
        """Record that the pipeline resumes at other offsets, without the records in between."""
        before, last = self.ends, self.last
        gear, declared = (last.gear, last.declared) if last is not None else (Gear.BATCH, Gear.BATCH)
        run = self.begin(gear, declared, why, now)
        run.starts, run.ends, run.lost = before, {**before, **ends}, lost
        run.ended, run.replayed = now, 0
        self.save()

    def add(self, batch: Batch, pending: Iterable[Pending] = ()) -> bool:
        """Record a committed batch of the latest run and its pending dead letters; False if already recorded."""
        if self.recent and batch.id <= self.recent[-1].id:
            return False
        if self.query_id is None:
            self.query_id = self.checkpoint.query_id()
        run = self.runs[-1]
        before = self.ends
        run.gap += missing(before, batch.starts)
        if run.first_batch is None:
            run.first_batch = batch.id
            run.starts = batch.starts or before
        run.last_batch = batch.id
        run.last_timestamp_ms = batch.timestamp_ms
        run.ends = {**before, **batch.ends}
        run.records += batch.records
        run.written += batch.written or 0
        run.dead += batch.dead
        run.invalid += batch.invalid
        run.retried += batch.retried
        self.recent = [*self.recent, batch][-_RECENT:]
        for entry in pending:
            again = overlaps(entry.ranges, self.again_until.get(entry.topic, {}))
            self.pending.append(replace(entry, since_ms=0, fresh=False) if again else entry)
        self.save()
        return True

    def count_misread(self, since_ms: int, why: str) -> int:
        """Count the records of the latest run's batches since a time as written twice; returns how many."""
        run = self.last
        if run is None or run.first_batch is None:
            return 0
        late = [each for each in self.recent if each.id >= run.first_batch and each.timestamp_ms >= since_ms]
        count = sum(each.records if each.written is None else each.written for each in late)
        if count:
            run.retried += count
            run.note = (
                f"{why}: up to {count} records were written before that was noticed, and are written again"
            )
            self.save()
        return count

    def keep_pending(self, entry: Pending) -> None:
        """Record the progress of an entry's dead letters, unless its batch was removed meanwhile."""
        index = self._index_of(entry)
        if index is not None:
            self.pending[index] = entry
            self.save()

    def settle_pending(self, entry: Pending) -> int:
        """Record that an entry is done; returns how many of its dead letters are lost."""
        index, run = self._index_of(entry), self.run_of(entry.batch)
        if index is None:
            return 0
        del self.pending[index]
        more, lost = max(0, entry.written - (entry.observed or 0)), entry.missing
        if run is not None:
            run.dead += more
            run.letters += entry.written
            run.letters_lost += lost
        self.recent = [
            replace(
                batch,
                dead=batch.dead + more,
                letters=batch.letters + entry.written,
                letters_lost=batch.letters_lost + lost,
            )
            if batch.id == entry.batch
            else batch
            for batch in self.recent
        ]
        self.save()
        return lost

    def end(self, now: datetime, error: str | None = None) -> None:
        """Record that the latest run has ended."""
        if self.last is not None and error is not None:
            self.last.error = error
        if self.last is not None and self.last.ended is None and self.last.pending_ms is None:
            self.last.pending_ms = self._pending_ms()
        self._close(now)
        self.save()

    def save(self) -> None:
        """Write the whole ledger."""
        file.write(self.folder, self.as_json())

    def as_json(self) -> dict[str, Any]:
        """The ledger as plain data, its proof first."""
        return {
            "app": self.app,
            "pipeline": self.pipeline,
            "gap": self.gap,
            "replayed": self.replayed,
            "at_least": self.at_least,
            "lost": self.lost,
            "query_id": self.query_id,
            "letters": self.letters,
            "pending": [pending_as_json(entry) for entry in self.pending],
            "again_until": self.again_until,
            "hold": hold_as_json(self.hold),
            "decisions": [each.as_json() for each in self.decisions],
            "scalings": [each.as_json() for each in self.scalings],
            "runs": [as_json(run) for run in self.runs],
            "recent": [as_json(batch) for batch in self.recent],
        }

    def _pending_ms(self) -> int | None:
        """The time of the batch that Spark has planned and not committed; the next start runs it again."""
        planned, committed = self.checkpoint.planned(), self.checkpoint.committed()
        if not planned or (committed and committed[-1] >= planned[-1]):
            return None
        logged = self.checkpoint.batch(planned[-1])
        return logged.timestamp_ms if logged else None

    def _index_of(self, entry: Pending) -> int | None:
        keys = [(each.batch, each.topic) for each in self.pending]
        return keys.index((entry.batch, entry.topic)) if (entry.batch, entry.topic) in keys else None

    def _close(self, now: datetime) -> None:
        if self.last is not None and self.last.ended is None:
            self.last.ended = now


@dataclass(frozen=True, slots=True)
class _Subfolder:
    folder: Folder
    name: str

    def names(self, folder: str) -> list[str]:
        return self.folder.names(f"{self.name}/{folder}")

    def read(self, name: str) -> str | None:
        return self.folder.read(f"{self.name}/{name}")

    def write(self, name: str, text: str) -> None:
        self.folder.write(f"{self.name}/{name}", text)

    def remove(self, name: str) -> None:
        self.folder.remove(f"{self.name}/{name}")

    def place(self, name: str) -> str:
        return self.folder.place(f"{self.name}/{name}")
