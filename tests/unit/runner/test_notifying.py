"""Notifications: each alert of a running app is sent once, whatever fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import gearshift as gs
from gearshift.alert import Level
from gearshift.errors import DefinitionError
from gearshift.runner import notifying
from gearshift.runner.notifying import Notifier
from gearshift.testing.gateways import HttpGateway
from tests.support import eventually

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def alert(name: str = "late", level: Level = "error") -> gs.Alert:
    return gs.Alert(
        id=name, level=level, kind="lag", what=f"{name} is late", hint="shift it", link="/", since=NOON
    )


def declared(url: str, levels: tuple[Level, ...] = ("error", "warning")) -> gs.App:
    app = gs.App("shop")

    @app.alert(gs.destinations.Webhook(url), levels=levels)
    def tell(alert: gs.Alert) -> dict[str, Any] | None:
        if alert.id == "boring":
            return None
        if alert.id == "broken":
            raise ValueError("no words for it")
        return {"text": str(alert), "page": alert.link}

    return app


@contextmanager
def notifier(app: gs.App, home: Path) -> Iterator[Notifier]:
    found = Notifier(app.graph, home)
    found.open()
    try:
        yield found
    finally:
        found.close()


def texts(gateway: HttpGateway) -> list[str]:
    return [each.json["text"] for each in gateway.accepted]


def test_an_alert_is_sent_once_while_it_lasts(tmp_path: Path) -> None:
    with HttpGateway() as gateway, notifier(declared(gateway.url), tmp_path) as sending:
        sending.take([alert("a")])
        eventually(lambda: texts(gateway) == ["a is late; shift it"], within=20)
        sending.take([alert("a"), alert("b")])
        eventually(lambda: len(gateway.accepted) == 2, within=20)
        sending.take([])
        sending.take([alert("a"), alert("b")])  # over for less than a minute: the same trouble
        sending.take([alert("a"), alert("b"), alert("c")])
        eventually(lambda: texts(gateway)[2:] == ["c is late; shift it"], within=20)


def test_a_later_run_does_not_send_it_again(tmp_path: Path) -> None:
    with HttpGateway() as gateway:
        app = declared(gateway.url)
        with notifier(app, tmp_path) as sending:
            sending.take([alert("a")])
            eventually(lambda: len(gateway.accepted) == 1, within=20)
        with notifier(app, tmp_path) as sending:
            sending.take([alert("a"), alert("b")])
            eventually(lambda: len(gateway.accepted) == 2, within=20)
        assert texts(gateway)[1:] == ["b is late; shift it"]


def test_a_trouble_that_was_over_and_comes_back_is_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifying, "_FORGOTTEN_AFTER", 0.0)
    with HttpGateway() as gateway, notifier(declared(gateway.url), tmp_path) as sending:
        sending.take([alert("a")])
        eventually(lambda: len(gateway.accepted) == 1, within=20)
        sending.take([])
        sending.take([])
        back = gs.Alert(**{**alert("a").as_json(), "since": NOON.replace(hour=13)})
        sending.take([back])
        eventually(lambda: len(gateway.accepted) == 2, within=20)


def test_a_receiver_that_is_down_gets_it_when_it_is_back(tmp_path: Path) -> None:
    with HttpGateway() as gateway, notifier(declared(gateway.url), tmp_path) as sending:
        gateway.down()
        sending.take([alert("a")])
        gateway.up()
        eventually(lambda: texts(gateway) == ["a is late; shift it"], within=30)


def test_one_that_cannot_be_put_into_words_does_not_hold_up_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with HttpGateway() as gateway, notifier(declared(gateway.url), tmp_path) as sending:
        sending.take([alert("broken"), alert("boring"), alert("a")])
        eventually(lambda: texts(gateway) == ["a is late; shift it"], within=20)
    assert [each for each in caplog.messages if "notification tell: no words for it" in each]


def test_only_the_levels_that_were_asked_for_are_sent(tmp_path: Path) -> None:
    with HttpGateway() as gateway, notifier(declared(gateway.url, ("error",)), tmp_path) as sending:
        sending.take([alert("w", "warning"), alert("e", "error")])
        eventually(lambda: len(gateway.accepted) == 1, within=20)
    assert texts(gateway) == ["e is late; shift it"]


def test_closing_while_a_receiver_is_down_takes_no_time(tmp_path: Path) -> None:
    before = threading.active_count()
    with notifier(declared("http://127.0.0.1:1"), tmp_path) as sending:
        sending.take([alert("a")])
    eventually(lambda: threading.active_count() <= before, within=5)


class Nowhere:
    batch_size = 1

    def open(self, group_id: str) -> None: ...
    def write(self, rows: Sequence[Any]) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


def test_a_declaration_that_cannot_work_is_refused_with_its_place() -> None:
    app = gs.App("shop")
    with pytest.raises(DefinitionError, match="does not take one alert") as refused:

        @app.alert(Nowhere())
        def tell() -> None: ...

    assert refused.value.file is not None and refused.value.file.endswith("test_notifying.py")
    with pytest.raises(DefinitionError, match="is async"):

        @app.alert(Nowhere())
        async def later(alert: gs.Alert) -> None: ...

    with pytest.raises(DefinitionError, match=r"levels=\('loud',\)"):

        @app.alert(Nowhere(), levels=("loud",))  # pyright: ignore[reportArgumentType]
        def shout(alert: gs.Alert) -> None: ...

    with pytest.raises(DefinitionError, match=r"goes to 'ops@example\.org'"):

        @app.alert("ops@example.org")  # pyright: ignore[reportArgumentType]
        def mail(alert: gs.Alert) -> None: ...
