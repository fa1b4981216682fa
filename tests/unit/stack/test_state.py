"""The state file of a running stack, and whether it is still valid."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gearshift.settings import Settings
from gearshift.stack import down, find
from gearshift.stack.processes import state
from gearshift.stack.processes.service import Pid
from gearshift.stack.processes.state import Running, State

ENDED = Pid(1, "another beginning")


def alive() -> Pid:
    pid = Pid.of(os.getpid())
    assert pid is not None
    return pid


def written(*services: tuple[str, Pid]) -> State:
    return State(
        owner=alive(),
        bootstrap_servers="127.0.0.1:9092",
        registry_url="http://127.0.0.1:8080",
        services=tuple(Running(name=name, pid=pid, port=1, log="log") for name, pid in services),
        ready=True,
    )


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    known = written(("kafka-1", alive()), ("registry", ENDED))
    known.write(tmp_path)
    assert state.read(tmp_path) == known
    state.remove(tmp_path)
    assert state.read(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"services": [{}]}'])
def test_a_broken_file_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / state.FILE).write_text(text)
    assert state.read(tmp_path) is None


def test_a_stack_is_usable_while_a_broker_and_the_registry_run() -> None:
    assert written(("kafka-1", ENDED), ("kafka-2", alive()), ("registry", alive())).usable
    assert not written(("kafka-1", alive()), ("registry", ENDED)).usable
    assert written(("kafka-1", alive()), ("connect", ENDED)).usable  # its owner restarts it
    assert not replace(written(("kafka-1", alive())), owner=ENDED).usable
    assert not replace(written(("kafka-1", alive())), ready=False).usable
    assert not replace(written(("kafka-1", alive())), stopping=True).usable


def test_a_folder_that_cannot_be_read_has_no_stack(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert state.read(loop) is None


def test_a_stale_state_is_not_a_stack_and_down_sends_no_signal(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    replace(written(("kafka-1", ENDED)), owner=ENDED).write(tmp_path / "stack")
    assert find(settings) is None
    assert not down(settings)
    assert state.read(tmp_path / "stack") is None
