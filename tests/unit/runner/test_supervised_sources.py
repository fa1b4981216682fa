"""A source that fails is restarted, and its counts are kept."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from gearshift.runner.sources import SupervisedSource
from tests.support import eventually


class Scripted:
    """A source that ends as scripted."""

    def __init__(self, kind: str, *, sent: int, error: str | None, runs: bool, opens: bool = True) -> None:
        self.running = False
        self.closed = False
        self._opens = opens
        self._runs = runs
        self._status = {"kind": kind, "sent": sent, "error": error}

    def open(self) -> None:
        if not self._opens:
            raise OSError("port 8088 is taken")
        self.running = self._runs

    def close(self) -> None:
        self.running, self.closed = False, True

    def status(self) -> dict[str, Any]:
        return {**self._status, "running": self.running}


@pytest.fixture
def made() -> Iterator[list[Scripted]]:
    yield []


def kept(script: list[Scripted], made: list[Scripted]) -> SupervisedSource:
    coming = iter(script)

    def make() -> Scripted:
        made.append(next(coming))
        return made[-1]

    return SupervisedSource("orders-in", make, first_backoff=timedelta(milliseconds=10))


def test_a_source_that_fails_is_recreated_until_it_runs(made: list[Scripted]) -> None:
    source = kept(
        [
            Scripted("files", sent=3, error="ValueError: 7", runs=False),
            Scripted("files", sent=0, error=None, runs=True, opens=False),
            Scripted("files", sent=4, error=None, runs=True),
        ],
        made,
    )
    source.open()
    assert source.status()["error"] == "ValueError: 7"
    eventually(lambda: source.running, within=20)
    wanted = {"kind": "files", "sent": 7, "error": None, "running": True, "restarts": 1}
    eventually(lambda: source.status() == wanted, within=20)
    source.close()
    assert [each.closed for each in made] == [True, True, True]


def test_a_simulator_that_has_sent_all_is_left_in_peace_and_a_server_is_not(made: list[Scripted]) -> None:
    done = kept([Scripted("simulator", sent=9, error=None, runs=False)], made)
    done.open()
    eventually(lambda: not done._thread.is_alive(), within=20)
    assert done.status()["sent"] == 9
    done.close()
    ended = kept(
        [Scripted("http", sent=1, error=None, runs=False), Scripted("http", sent=0, error=None, runs=True)],
        made,
    )
    ended.open()
    eventually(lambda: ended.status()["restarts"] == 1, within=20)
    ended.close()
