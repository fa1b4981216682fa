"""Writes the dead letters that are pending in a ledger; failed ones are retried later and do not block others."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field, replace

from gearshift.definitions import Pipeline, Topic
from gearshift.pipelines.context import Context
from gearshift.pipelines.dead_letters.pending import Pending
from gearshift.pipelines.dead_letters.writer import SetAside, ids_of, restricted, set_aside
from gearshift.pipelines.failures import first_line
from gearshift.pipelines.ledger.ledger import Ledger
from gearshift.pipelines.query import Versions
from gearshift.pipelines.records import reading
from gearshift.topics import DeadLetters

log = logging.getLogger(__name__)

_FIRST_WAIT, _LONGEST_WAIT = 1.0, 30.0


@dataclass(frozen=True, slots=True)
class _Retry:
    """When to retry dead letters that could not be written, and their error."""

    error: str
    wait: float
    due: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "due", time.monotonic() + self.wait)


class _LeftForTheNextRunError(Exception):
    """The backlog was closed before all dead letters were written."""


class Backlog:
    """The pending dead letters of one pipeline; `lock` guards its ledger."""

    def __init__(
        self,
        context: Context,
        pipeline: Pipeline,
        letters: DeadLetters,
        ledger: Ledger,
        lock: threading.RLock,
    ) -> None:
        self.letters = letters
        self.versions: Versions = {}
        """The schema versions with which the topics are read now."""
        self.unknown_ids: frozenset[int] = frozenset()
        """Unregistered schema ids of the records that were set aside last."""
        self._context, self._pipeline, self._ledger, self._lock = context, pipeline, ledger, lock
        self._versions_of: dict[int, Versions] = {}
        self._retries: dict[tuple[int, str], _Retry] = {}
        self._closed = False

    @property
    def ids(self) -> dict[str, list[int]]:
        """The schema ids with which records are read now, by topic."""
        return ids_of(self.versions)

    @property
    def due(self) -> float | None:
        """When the next retry is due, by the monotonic clock."""
        return min((retry.due for retry in self._retries.values()), default=None)

    def note_versions(self, run: int) -> None:
        """Keep the schema versions of a run while dead letters of it are pending."""
        waiting = (self._ledger.run_of(entry.batch) for entry in self._ledger.pending)
        numbers = {each.number for each in waiting if each is not None}
        kept = {number: known for number, known in self._versions_of.items() if number in numbers}
        self._versions_of = {**kept, run: self.versions}

    def next_entry(self, *, closing: bool) -> Pending | None:
        """The oldest entry that is due; nothing is retried while closing."""
        if not self.versions:  # entries of an earlier run wait until the schemas are known
            return None
        now = time.monotonic()
        for entry in self._ledger.pending:
            retry = self._retries.get((entry.batch, entry.topic))
            if retry is None or (retry.due <= now and not closing):
                return entry
        return None

    def write(self, entry: Pending) -> None:
        """Write the dead letters of an entry; if that fails, retry later without those already written."""
        topic = next((each for each in self._pipeline.topics.values() if each.name == entry.topic), None)
        if topic is None:
            self._drop(entry)
            return
        key = entry.batch, entry.topic
        versions = self._versions_at(entry, topic)
        try:
            found = set_aside(
                self._context, self._pipeline, topic, versions, entry, letters=self.letters, keep=self._keep
            )
        except _LeftForTheNextRunError:
            return
        except Exception as error:
            self._retry_later(key, first_line(error))
            return
        with self._lock:
            self._retries.pop(key, None)
            lost = self._ledger.settle_pending(found.entry)
            self.unknown_ids = found.unknown_ids or self.unknown_ids
        self._log(topic, found, lost)

    def close(self) -> None:
        """Leave unwritten dead letters to the next run."""
        self._closed = True
        if self._ledger.pending:
            log.error("%s: dead letters of the last batches are left to the next run", self._pipeline.name)

    def _retry_later(self, key: tuple[int, str], error: str) -> None:
        before = self._retries.get(key)
        wait = _FIRST_WAIT if before is None else min(before.wait * 2, _LONGEST_WAIT)
        if before is None or before.error != error:
            words = "%s: dead letters of batch %d: %s; retrying"
            log.warning(words, self._pipeline.name, key[0], error)
        with self._lock:
            self._retries[key] = _Retry(error, wait)
            left = next((each for each in self._ledger.pending if (each.batch, each.topic) == key), None)
            if left is None:
                del self._retries[key]  # its batch was removed
            else:
                self._ledger.keep_pending(replace(left, fresh=False))

    def _versions_at(self, entry: Pending, topic: Topic) -> reading.Versions:
        """The schema versions that the batch was read with."""
        run = self._ledger.run_of(entry.batch)
        known = self._versions_of.get(run.number) if run is not None else None
        if known is not None:
            return known[topic.name]
        return restricted(self.versions[topic.name], run.schemas if run is not None else {}, topic)

    def _keep(self, entry: Pending) -> None:
        if self._closed:
            raise _LeftForTheNextRunError
        with self._lock:
            self._ledger.keep_pending(entry)

    def _drop(self, entry: Pending) -> None:
        with self._lock:
            lost = self._ledger.settle_pending(entry)
        words = "%s: %d corrupt records of %s are lost without a dead letter: the pipeline no longer reads it"
        log.error(words, self._pipeline.name, lost, entry.topic)

    def _log(self, topic: Topic, found: SetAside, lost: int) -> None:
        """Log what was set aside and what was lost."""
        if found.fresh:
            log.warning(
                '%s: %s of %s set aside in %s: %s; see "gearshift dlq list"',
                self._pipeline.name,
                "1 record" if found.fresh == 1 else f"{found.fresh} records",
                topic.name,
                topic.dead_letters,
                found.reason,
            )
        entry = found.entry
        if not lost and not (entry.gone and entry.observed is None):
            return
        count = "any" if entry.observed is None else f"{lost} of {entry.observed}"
        why = "; ".join(
            f"retention removed offsets {first} to {end - 1} of {topic.name}/{partition}"
            for partition, first, end in entry.gone
        )
        log.error(
            "%s: batch %d: %s corrupt records of %s are lost without a dead letter: %s",
            self._pipeline.name,
            entry.batch,
            count,
            topic.name,
            why or "they are no longer on the topic, or can now be decoded",
        )
