"""Boards on real topics: what arrives is on every page, and what cannot be decoded is counted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

import gearshift as gs
from gearshift.connection import Connection
from gearshift.schemas import Registry
from gearshift.settings import Settings
from gearshift.topics import Admin, Producer
from tests.consoles import Client, FakeRun, open_console
from tests.support import eventually

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class Score:
    player: str
    points: int
    at: datetime


class Game:
    """An app with a topic of scores, and its boards."""

    def __init__(self, unique: str, connection: Connection) -> None:
        self.app = gs.App(unique, timezone="Europe/Berlin")
        self.scores = self.app.topic(f"{unique}-scores", value=Score, key="player", partitions=2)
        self.app.board(
            "game",
            gs.Leaderboard(self.scores, by="points", label="player", top=2),
            gs.Number(self.scores, title="scores"),
            gs.Number(self.scores, today=True),
            gs.Feed(self.scores, text="{player}: {points}", at="at", top=3),
            gs.Series(self.scores, value="points", at="at", step="1 minute", how="sum"),
        )
        self._connection = connection
        with Admin(connection) as admin:
            admin.ensure([self.scores])

    def score(self, *scores: tuple[str, int]) -> None:
        with Registry(self._connection) as registry, Producer(self._connection, registry) as producer:
            for player, points in scores:
                producer.send(self.scores, Score(player, points, NOW), key=player)

    def send_garbage(self) -> None:
        with Producer(self._connection) as producer:
            producer.send_bytes(self.scores.name, b"no schema id", key=b"x")
            producer.send_bytes(self.scores.name, None, key=b"x")


@pytest.fixture
def game(unique: str, connection: Connection) -> Game:
    return Game(unique, connection)


@pytest.fixture
def client(game: Game, connection: Connection, settings: Settings) -> Iterator[Client]:
    with open_console(settings.home, FakeRun(game.app), connection=connection, settings=settings) as client:
        yield client


Panels = dict[str, Any]


def panels_when(events: Iterator[tuple[str, Any]], shown: Panels, holds: Callable[[Panels], bool]) -> Panels:
    """The panels once they show something."""
    while not (len(shown) == 5 and holds(shown)):
        shown |= next(events)[1]["panels"]
    return shown


def test_a_board_shows_what_is_there_and_what_arrives(game: Game, client: Client) -> None:
    game.score(("ann", 5), ("bob", 7), ("cy", 1), ("ann", 9))
    with client.events("/api/boards/game/events") as events:
        shown = panels_when(events, {}, lambda found: found["number-2"].get("value") == 4)
        assert shown["leaderboard-1"]["rows"] == [[1, "ann", 9], [2, "bob", 7]]
        assert shown["number-3"]["value"] == 4
        assert {item["text"] for item in shown["feed-4"]["items"]} <= {"ann: 9", "ann: 5", "bob: 7", "cy: 1"}
        assert len(shown["feed-4"]["items"]) == 3
        assert shown["series-5"] == {"points": [{"at": NOW.isoformat(), "value": 22}]}
        game.send_garbage()
        game.score(("cy", 20))
        shown = panels_when(events, shown, lambda found: found["number-2"].get("value") == 5)
        assert shown["leaderboard-1"]["rows"] == [[1, "cy", 20], [2, "ann", 9]]
        shown = panels_when(events, shown, lambda found: found["number-2"].get("skipped") == 1)
        assert shown["feed-4"]["items"][0]["text"] == "cy: 20"


def test_two_pages_share_one_reader_and_a_later_one_gets_everything_at_once(
    game: Game, client: Client
) -> None:
    game.score(("ann", 5))
    with client.events("/api/boards/game/events") as first:
        panels_when(first, {}, lambda found: found["number-2"].get("value") == 1)
        with client.events("/api/boards/game/events") as second:
            assert next(second)[1]["panels"]["leaderboard-1"]["rows"] == [[1, "ann", 5]]
            assert [each.name for each in threading.enumerate()].count("board game") == 1
    eventually(lambda: "board game" not in [each.name for each in threading.enumerate()])


def test_a_topic_that_is_missing_is_shown_once_it_exists(
    unique: str, connection: Connection, settings: Settings
) -> None:
    game = Game(unique, connection)
    with Admin(connection) as admin:
        admin.delete([game.scores.name])
    with (
        open_console(settings.home, FakeRun(game.app), connection=connection, settings=settings) as client,
        client.events("/api/boards/game/events") as events,
    ):
        shown = panels_when(events, {}, lambda found: "error" in found["number-2"])
        assert shown["number-2"]["error"]["kind"] == "TopicMissingError"
        with Admin(connection) as admin:
            admin.ensure([game.scores])
        game.score(("ann", 5))
        panels_when(events, shown, lambda found: found["number-2"].get("value") == 1)
