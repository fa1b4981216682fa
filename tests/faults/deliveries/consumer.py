"""A consumer in a process of its own that fails as it is told.

It tells how it is in lines of JSON on its output, and ends in order on SIGTERM.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from gearshift.delivery.worker import Worker
from gearshift.errors import GearshiftError, RetriableError
from gearshift.topics import GroupConsumer, TransactionalProducer
from tests.faults.deliveries.plan import Fault, Plan, declare

_TELLS_EVERY = 0.2


class CommitsFirst(Worker):
    """The wrong loop: it commits what it has polled before it has done anything with it."""

    def _take_in(self, messages: list[Any]) -> None:
        read = {(m.topic(), m.partition()): m.offset() + 1 for m in messages if m.error() is None}
        self._consumer.commit(read)
        super()._take_in(messages)


def run(plan: str, said: str, log: str) -> None:
    """Work as a plan in JSON says, with output and log in these files."""
    for stream, file in ((sys.stdout, said), (sys.stderr, log)):
        opened = os.open(file, os.O_WRONLY | os.O_APPEND)
        os.dup2(opened, stream.fileno())
        os.close(opened)
    sys.exit(_deliver(Plan.of_json(plan)))


def _deliver(plan: Plan) -> int:
    """Deliver until SIGTERM, or until the fault."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(process)d %(threadName)s %(levelname)s %(message)s"
    )
    faulthandler.register(signal.SIGUSR1)  # shows where every thread is
    fault = Fault(plan)
    _watch_commits(plan, fault)
    worker = (CommitsFirst if plan.commits_first else Worker)(
        declare(plan, fault).delivery,
        plan.name,
        plan.asked,
        member=plan.member,
        in_flight=plan.in_flight,
        max_poll_interval=timedelta(seconds=plan.max_poll_interval),
    )
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    threading.Thread(target=_tell, args=(worker,), daemon=True).start()
    try:
        worker.run()
    except GearshiftError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    _say(worker)
    return 0


def _watch_commits(plan: Plan, fault: Fault) -> None:
    """Die or fail where offsets are committed, as the plan says."""
    commit, commit_soon = GroupConsumer.commit, GroupConsumer.commit_soon
    commit_transaction = TransactionalProducer.commit
    began: list[float] = []

    def fails(offsets: Mapping[tuple[str, int], int]) -> bool:
        if not any(offset > 0 for offset in offsets.values()):
            return False
        fault.reached("commit")
        began.append(time.monotonic())
        return time.monotonic() < began[0] + plan.failing_commits

    def committing(consumer: GroupConsumer, offsets: Mapping[tuple[str, int], int]) -> None:
        if fails(offsets):
            raise RetriableError("no commit is taken")
        commit(consumer, offsets)

    def committing_soon(consumer: GroupConsumer, offsets: Mapping[tuple[str, int], int], heard: Any) -> None:
        if fails(offsets):
            heard(RetriableError("no commit is taken"))
        else:
            commit_soon(consumer, offsets, heard)

    def committing_transaction(producer: TransactionalProducer) -> None:
        fault.reached("transaction")
        commit_transaction(producer)

    GroupConsumer.commit = committing
    GroupConsumer.commit_soon = committing_soon
    TransactionalProducer.commit = committing_transaction


def _tell(worker: Worker) -> None:
    pause = threading.Event()
    while not pause.wait(_TELLS_EVERY):
        _say(worker)


def _say(worker: Worker) -> None:
    sys.stdout.write(json.dumps(worker.status()) + "\n")
    sys.stdout.flush()
