"""Which services are restarted, and when."""

from __future__ import annotations

import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gearshift.stack.processes.restarts import ServiceSupervisor
from gearshift.stack.processes.service import Pid
from gearshift.stack.processes.state import Running
from gearshift.stack.services.kafka import failed_storage
from tests.support import eventually

FULL = """\
2026-11-17T04:32:32,453 ERROR LogDirFailureChannel: Error while writing to checkpoint file /data/kafka-1/t-0/epochs
java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
2026-11-17T04:32:32,581 ERROR LogManager: Shutdown broker because all log dirs in /data/kafka-1 have failed
"""
Usage = namedtuple("Usage", "total used free")


class Broken:
    """A stack whose broker has ended, with what a supervisor uses of it."""

    owned, stopping = True, False

    def __init__(self, folder: Path, log: str) -> None:
        self.folder = folder
        self.started: list[str] = []
        file = folder / "kafka-1.log"
        file.write_text(log)
        self._service = Running(name="kafka-1", pid=Pid(1, ""), port=1, log=str(file), address="")

    def dead(self) -> list[Running]:
        return [] if self.started else [self._service]

    def exited_with_error(self, _name: str) -> bool:
        return True

    def start_service(self, name: str) -> None:
        self.started.append(name)


def test_a_broker_whose_disk_was_full_is_restarted_when_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [0]
    usage: Callable[[Any], Usage] = lambda _: Usage(1 << 30, 0, free[0])  # noqa: E731
    monkeypatch.setattr(shutil, "disk_usage", usage)
    stack: Any = Broken(tmp_path, FULL)
    with ServiceSupervisor(stack, progress=lambda _: None) as supervisor:
        eventually(lambda: supervisor.problem, within=10)
        assert supervisor.problem and "broker kafka-1 has ended: its disk is full" in supervisor.problem
        assert stack.started == []
        free[0] = 1 << 30
        eventually(lambda: stack.started == ["kafka-1"], within=10)
        eventually(lambda: supervisor.problem is None, within=10)


def test_a_broker_that_was_killed_is_not_restarted(tmp_path: Path) -> None:
    log = tmp_path / "kafka-1.log"
    log.write_text("2026-11-17T04:32:32,453 INFO KafkaServer: started\n")
    assert failed_storage(log) is None
    assert failed_storage(tmp_path / "none.log") is None
    log.write_text(FULL)
    assert failed_storage(log) == "No space left on device"
