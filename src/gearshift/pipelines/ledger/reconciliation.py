"""Makes a ledger agree with Spark's checkpoint; a batch that Spark's logs do not show as committed does not count."""

from __future__ import annotations

from datetime import UTC, datetime

from gearshift.errors import LedgerError
from gearshift.freshness import Gear
from gearshift.pipelines.dead_letters.pending import unobserved
from gearshift.pipelines.ledger.checkpoint import Checkpoint
from gearshift.pipelines.ledger.ledger import SPARK, Ledger
from gearshift.pipelines.ledger.runs import Batch, Run, count_between, missing, position


def require_checkpoint(ledger: Ledger) -> None:
    """Raise if the checkpoint that this ledger describes is missing or belongs to another query."""
    found = ledger.checkpoint.query_id()
    if ledger.query_id is None or found == ledger.query_id:
        return
    place = ledger.folder.place(SPARK)
    what = (
        f"the checkpoint in {place} is missing"
        if found is None
        else f"the checkpoint in {place} belongs to another query, {found}"
    )
    raise LedgerError(
        f"{what}; the ledger has query {ledger.query_id} at batch {ledger.last_batch} "
        f"({position(ledger.ends)}), and a new query would read and write everything again",
        hint=f"restore the checkpoint, or start over with gearshift reset {ledger.pipeline} --yes",
        app=ledger.app,
        pipeline=ledger.pipeline,
    )


def describe_restored_checkpoint(ledger: Ledger) -> str | None:
    """Both positions, if the checkpoint is behind the ledger and so will reuse batch numbers."""
    planned = ledger.checkpoint.planned()
    newest = planned[-1] if planned else -1
    if ledger.query_id is None or newest >= ledger.last_batch:
        return None
    logged = ledger.checkpoint.batch(newest)
    return (
        f"the checkpoint is at batch {newest} ({position(logged.ends) if logged else 'the beginning'}) and the "
        f"ledger at batch {ledger.last_batch} ({position(ledger.ends)}): an older copy of the checkpoint was restored"
    )


def reconcile(ledger: Ledger) -> None:
    """Make the ledger agree with Spark's logs after a crash.

    A batch may have been committed without its report having arrived; and a reported batch may be missing from the
    logs, where Spark commits in the background or an older checkpoint was restored.
    """
    if ledger.last is None:
        return
    require_checkpoint(ledger)
    committed = ledger.checkpoint.committed()
    durable = committed[-1] if committed else -1
    if durable < ledger.last_batch:
        _go_back(ledger, durable)
    known = ledger.last_batch
    for number in committed:
        if number > known:
            _add_from_log(ledger, number)
    ledger.save()


def rebuild(ledger: Ledger, declared: Gear) -> bool:
    """Fill an empty ledger from Spark's logs; whether they had any batch."""
    committed = ledger.checkpoint.committed()
    first = ledger.checkpoint.batch(committed[0]) if committed else None
    if ledger.runs or first is None:
        return False
    run = Run(
        number=0,
        gear=declared,
        declared=declared,
        why="rebuilt from Spark's logs",
        began=datetime.fromtimestamp(first.timestamp_ms / 1000, UTC),
        stamped=False,
        at_least=True,
        note="the ledger was lost: gears, pauses, replays and dead letters until then are unknown, and "
        "records are counted as offsets",
    )
    ledger.runs.append(run)
    for number in committed:
        _add_from_log(ledger, number)
    ledger.save()
    return True


def _go_back(ledger: Ledger, durable: int) -> None:
    """Remove the batches after this one: they run again, and what they wrote is counted as replayed."""
    note = describe_restored_checkpoint(ledger)
    ledger.again_until = ledger.ends
    ledger.pending = [entry for entry in ledger.pending if entry.batch <= durable]
    removed = [batch for batch in ledger.recent if batch.id > durable]
    ledger.recent = [batch for batch in ledger.recent if batch.id <= durable]
    last = ledger.recent[-1] if ledger.recent and ledger.recent[-1].id == durable else None
    for run in reversed(ledger.runs):
        if run.first_batch is None or (run.last_batch or 0) <= durable:
            continue
        run.replayed = None
        if run.first_batch > durable:
            run.clear()
            run.pending_ms = int(run.began.timestamp() * 1000)
        elif last is not None:
            _truncate(run, last, removed)
        else:
            _truncate_by_log(run, ledger.checkpoint, durable, removed)
        if note is not None:
            run.note = note if run.note is None else f"{note}; {run.note}"
            note = None


def _truncate(run: Run, last: Batch, removed: list[Batch]) -> None:
    """End a run at a batch that is still known individually."""
    ends = last.ends
    for batch in removed:
        if run.last_batch is None or batch.id > run.last_batch:
            break
        run.records -= batch.records
        run.written -= batch.written or 0
        run.dead -= batch.dead
        run.invalid -= batch.invalid
        run.letters -= batch.letters
        run.letters_lost -= batch.letters_lost
        run.retried -= batch.retried
        run.gap -= missing(ends, batch.starts)
        ends = {**ends, **batch.ends}
    run.last_batch, run.ends = last.id, {**run.ends, **last.ends}
    run.last_timestamp_ms = run.pending_ms = last.timestamp_ms


def _truncate_by_log(run: Run, checkpoint: Checkpoint, durable: int, removed: list[Batch]) -> None:
    """End a run at an older batch, whose offsets and time only Spark's log still has."""
    logged = checkpoint.batch(durable)
    run.last_batch = durable
    if logged is not None:
        run.ends, run.last_timestamp_ms = logged.ends, logged.timestamp_ms
        run.records = count_between(run.starts, logged.ends)
    if not run.stamped:
        known = removed[0] if removed else None
        run.pending_ms = known.timestamp_ms if known is not None else None
        run.at_least = True
        run.note = f"batches {durable + 1} to {known.id if known else 'the last'} are too old to be counted individually"


def _add_from_log(ledger: Ledger, number: int) -> None:
    checkpoint = ledger.checkpoint
    logged = checkpoint.batch(number)
    if logged is None:
        return
    previous = checkpoint.batch(number - 1) if number else None
    starts = previous.ends if previous else (ledger.ends or checkpoint.first_offsets())
    ledger.add(
        Batch(
            id=number,
            # A batch that moves the state repeats the time of the one before.
            timestamp_ms=max(logged.timestamp_ms, ledger.runs[-1].last_timestamp_ms),
            starts=starts,
            ends=logged.ends,
            records=count_between(starts, logged.ends),
        ),
        unobserved(number, starts, logged.ends, logged.timestamp_ms),
    )
