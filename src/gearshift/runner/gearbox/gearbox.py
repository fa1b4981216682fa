"""Shifts the pipelines with `gear="auto"` or a timetable while they run; a person's shift wins."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from gearshift.errors import GearshiftError
from gearshift.freshness import Gear
from gearshift.gearbox import sentences
from gearshift.gearbox.costs import AT_FIRST
from gearshift.gearbox.decision import Decision, Reason, decide, decide_by_timetable
from gearshift.gearbox.measurements import BatchTimes, Hold, Limits, Memory, Promise
from gearshift.gearbox.slots import wanted_of
from gearshift.pipelines.check.automatic import gears_of
from gearshift.pipelines.check.gears import Report
from gearshift.pipelines.check.requirements import Requirements
from gearshift.pipelines.ledger.decisions import Decided
from gearshift.pipelines.ledger.ledger import Ledger
from gearshift.pipelines.shift import shift
from gearshift.pipelines.supervisor import Supervisor
from gearshift.runner.gearbox.measuring import Measuring
from gearshift.runner.rates import Figures
from gearshift.spark.private import release_thread

log = logging.getLogger(__name__)

_LOOK = 1.0
_LONGEST_BACKOFF = timedelta(hours=1)
_PASSING = (Reason.CALM, Reason.RESTING, Reason.BUDGET, Reason.ALLOWANCE)
"""Reasons to wait for another gear: they come and go, and change nothing."""


class Gearbox:
    """The gearbox of one pipeline, in a thread of its own, since a shift takes a while."""

    def __init__(
        self,
        supervisor: Supervisor,
        report: Report,
        requirements: Requirements,
        limits: Limits,
        *,
        slots: Slots,
        figures: Callable[[], Figures | None],
        works: Callable[[], bool],
    ) -> None:
        pipeline = supervisor.pipeline
        self.supervisor = supervisor
        self.decision: Decision | None = None
        self._requirements = requirements
        self._limits = limits
        self._slots = slots
        self._figures = figures
        self._works = works
        self._report = report
        self._zone = ZoneInfo(supervisor.context.graph.timezone)
        gears = gears_of(report)
        self._promise = Promise(
            freshness=pipeline.freshness.duration.total_seconds(),
            trigger=pipeline.trigger.total_seconds(),
            gears=gears,
            slots=requirements.slots_of(report) if Gear.REAL_TIME in gears else 0,
            grouped=report.shuffles > 0,
        )
        self._memory = recall(supervisor.ledger, datetime.now(UTC), limits)
        self._measuring = Measuring(supervisor)
        self._lock = threading.RLock()
        self._failures = 0
        self._retry_at: datetime | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"gearbox {pipeline.name}", daemon=True)

    @property
    def hold(self) -> Hold | None:
        """A person's shift that is in force."""
        hold = self._memory.hold
        return hold if hold is not None and hold.holds(datetime.now(UTC)) else None

    def choose_first(self) -> tuple[str, Mapping[str, float]]:
        """Choose the gear to start in; returns why, and the numbers behind it."""
        supervisor = self.supervisor
        if supervisor.gear is Gear.REAL_TIME and self._slots.free_for(supervisor) < self._promise.slots:
            supervisor.gear = Gear.NEAR_REAL_TIME
        decision = self._decide(datetime.now(UTC), works=True)
        if not decision.is_shift or not self._report.verdicts[decision.gear].ok:
            return "run", {}
        supervisor.gear = decision.gear
        return f"gearbox: {sentences.why(decision)}", sentences.numbers(decision)

    def open(self) -> None:
        """Begin to decide, every second."""
        self._thread.start()

    def stop(self) -> None:
        """Decide nothing more; a shift in progress ends by itself."""
        self._stopping.set()

    def close(self) -> None:
        """Wait for the end of the thread."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    @contextmanager
    def holding(self, hold: Hold) -> Generator[None]:
        """Respect a person's shift, which takes place inside this block; if it fails, what was in force before."""
        with self._lock:
            before = self._memory.hold
            self._keep(hold)
            try:
                yield
            except BaseException:
                self._keep(before)
                raise
            try:
                self._decide(datetime.now(UTC), works=self._works())  # `why` is asked next
            except Exception:
                log.exception("%s: the gearbox could not decide", self.supervisor.pipeline.name)

    def release(self) -> None:
        """Decide again, whatever a person has chosen."""
        with self._lock:
            self._keep(None)
            self.decision = None  # it was about what the person chose

    def count_slots(self) -> None:
        """Count again what the promise needs in real-time: the pipeline was scaled."""
        if self._promise.slots:
            self._promise = replace(self._promise, slots=self._requirements.slots_of(self._report))

    def _keep(self, hold: Hold | None) -> None:
        self._memory = replace(self._memory, hold=hold)
        self.supervisor.recorder.hold(hold)

    def why(self) -> dict[str, Any]:
        """The latest decision, in sentences and numbers."""
        decision = self.decision
        if decision is None:
            return {"reason": None, "why": "the gearbox has not decided yet", "change": None, "numbers": {}}
        return {
            "reason": str(decision.reason),
            "why": sentences.why(decision),
            "change": sentences.change(decision, self._zone),
            "numbers": sentences.numbers(decision),
        }

    def _run(self) -> None:
        try:
            while not self._stopping.wait(_LOOK):
                try:
                    self._look(datetime.now(UTC))
                except Exception:
                    log.exception("%s: the gearbox could not decide", self.supervisor.pipeline.name)
        finally:
            release_thread()

    def _look(self, now: datetime) -> None:
        if self._retry_at is not None and now < self._retry_at:
            return
        with self._lock:  # a person's shift begins before this, or after the shift it leads to
            decision = self._decide(now, works=self._works())
            if not decision.is_shift or self._stopping.is_set():
                return
            self._shift(decision, now)

    def _decide(self, now: datetime, *, works: bool) -> Decision:
        supervisor, timetable = self.supervisor, self.supervisor.pipeline.timetable
        name = supervisor.pipeline.name
        measured = self._measuring.measure(
            self._figures(),
            gear=supervisor.gear,
            works=works,
            slots_free=self._slots.free_for(supervisor),
            slots_wanted=self._slots.wanted_from(name),
        )
        with self._lock:
            if timetable is not None:
                decision = decide_by_timetable(
                    timetable, self._zone, self._promise, measured, self._memory, now, self._limits
                )
            else:
                decision = decide(self._promise, measured, self._memory, now, self._limits)
            if self._memory.hold is not None and decision.memory.hold is None:
                supervisor.recorder.hold(None)
            self._memory = decision.memory
        self._slots.note(name, decision.slots_lacking)
        before, self.decision = self.decision, decision
        self._note(before, decision)
        return decision

    def _note(self, before: Decision | None, decision: Decision) -> None:
        """Enter a decision in the ledger if it is another one than before."""
        last = next(reversed(self.supervisor.ledger.decisions), None)
        is_same = last is not None and (last.gear, last.reason) == (decision.gear, str(decision.reason))
        if not decision.is_shift and (is_same or decision.reason in _PASSING):
            return
        if not decision.is_shift and before is None and last is not None:
            return  # nothing has been measured since the start
        self.supervisor.recorder.decide(
            Decided(
                at=decision.at,
                gear=decision.gear,
                reason=str(decision.reason),
                why=sentences.why(decision),
                is_shift=decision.is_shift,
                numbers=sentences.numbers(decision),
            )
        )

    def _shift(self, decision: Decision, now: datetime) -> None:
        name, why = self.supervisor.pipeline.name, sentences.why(decision)
        log.info("%s: shifting to %s: %s", name, decision.gear, why)
        try:
            shift(
                self.supervisor,
                decision.gear,
                self._requirements,
                why=why,
                numbers=sentences.numbers(decision),
                on_step=lambda _step, _words: None,
            )
        except GearshiftError as error:
            wait = min(_LONGEST_BACKOFF, self._limits.rest * 2**self._failures)
            self._failures, self._retry_at = self._failures + 1, now + wait
            if not self._stopping.is_set():
                log.warning("%s: no shift to %s, next decision in %s: %s", name, decision.gear, wait, error)
        else:
            self._failures, self._retry_at = 0, None


class Slots:
    """The task slots of all pipelines, and who lacks some."""

    def __init__(self, requirements: Requirements) -> None:
        self._requirements = requirements
        self._lacking: dict[str, int] = {}
        self._free = 0
        self._lock = threading.Lock()

    def free_for(self, supervisor: Supervisor) -> int:
        """The slots that no other real-time query holds, besides one to spare."""
        self._free = self._requirements.free_slots()
        return self._requirements.free_slots(besides=supervisor)

    def note(self, name: str, lacking: int) -> None:
        """Take how many slots a promise needs and cannot have."""
        with self._lock:
            self._lacking[name] = lacking

    def wanted_from(self, name: str) -> int:
        """The slots that a pipeline is asked to give up."""
        with self._lock:
            return wanted_of({name: 0, **self._lacking}, free=self._free)[name]


def recall(ledger: Ledger, now: datetime, limits: Limits) -> Memory:
    """What the gearbox remembered when the last runner ended, as far as the ledger has it."""
    decisions = ledger.decisions
    numbers: Mapping[str, float] = decisions[-1].numbers if decisions else {}
    shifts = [
        each.at
        for each in decisions
        if each.is_shift
        and each.reason not in (Reason.HELD, Reason.TIMETABLE)
        and now - each.at < limits.budget_time
    ]
    return Memory(
        times=BatchTimes(
            overhead=numbers.get("batch_overhead", AT_FIRST.overhead),
            capacity=numbers.get("batch_capacity", AT_FIRST.capacity),
        ),
        learned_at=decisions[-1].at if decisions else None,
        shifts=tuple(shifts[-limits.budget :]),
        late=numbers.get("late", 0.0),
        late_at=decisions[-1].at if numbers.get("late") else None,
        hold=ledger.hold,
    )
