"""Ports are chosen once and reused."""

from __future__ import annotations

import socket
from pathlib import Path

from gearshift.stack.processes import ports


def test_a_port_is_chosen_once_and_reused(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    first = ports.claim(["a", "b"], file=file)
    assert first["a"] != first["b"]
    assert ports.claim(["a", "b"], file=file) == first == ports.saved(file)


def test_a_port_in_use_is_replaced_and_the_others_stay(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    first = ports.claim(["a", "b"], file=file)
    with socket.socket() as other:
        other.bind((ports.HOST, first["a"]))
        other.listen()
        second = ports.claim(["a", "b"], file=file)
    assert second["a"] not in first.values()
    assert second["b"] == first["b"]
    assert ports.saved(file) == second


def test_a_file_that_is_not_json_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    file.write_text("half a fi")
    assert set(ports.claim(["a"], file=file)) == {"a"}
