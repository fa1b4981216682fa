"""What sources remember of their marks, and for how long."""

from __future__ import annotations

import time

import pytest

from gearshift.sources.files.taken import Position, TakenFiles
from gearshift.sources.http.bodies import Refusal
from gearshift.sources.http.writer import KnownKeys, Request

DAY = 86_400.0


def request(key: str, body: bytes = b"{}") -> Request:
    return Request.of("readings", [(None, b"x")], key, body)


def learn(keys: KnownKeys, made: Request, at: float) -> None:
    assert made.key is not None
    keys.learn(made.key.encode(), made.body.encode(), at)


def test_a_key_is_known_for_a_day_with_the_body_it_came_with() -> None:
    keys, now = KnownKeys(), time.time()
    learn(keys, request("today"), now - DAY + 60)
    learn(keys, request("yesterday"), now - 1.1 * DAY)
    assert keys.came_before(request("today"))
    with pytest.raises(Refusal, match="another body"):
        keys.came_before(request("today", b"[]"))
    assert not keys.came_before(request("yesterday"))
    assert not keys.came_before(request("new"))
    assert not keys.came_before(Request.of("readings", [], None, b"{}"))


def test_keys_that_are_too_old_are_forgotten_while_others_come() -> None:
    keys, now = KnownKeys(), time.time()
    for number in range(20_000):
        learn(keys, request(f"old {number}"), now - 2 * DAY)
    for number in range(20_000):
        learn(keys, request(f"new {number}"), now)
    assert len(keys._known) < 60_000  # two entries each: without forgetting it would be 80,000


def test_a_finished_file_is_known_and_a_started_one_has_its_position() -> None:
    files = TakenFiles()
    begun = Position(rows=400, sent=399, dead=1)
    files.learn(b"d1/a.csv", begun.write(), 0.0)
    assert (files.begun, files.is_taken(b"d1/a.csv")) == ({b"d1/a.csv": begun}, False)
    files.learn(b"d1/a.csv", Position(rows=500, sent=499, dead=1, done=True).write(), 0.0)
    assert (files.begun, files.is_taken(b"d1/a.csv"), files.is_taken(b"d2/a.csv")) == ({}, True, False)
