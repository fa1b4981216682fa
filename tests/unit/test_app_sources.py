"""What app.source, app.files and app.http declare and reject."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import gearshift as gs
from gearshift.errors import DefinitionError


@dataclass
class Order:
    order_id: int


@pytest.fixture
def app() -> gs.App:
    declared = gs.App("food")
    declared.topic("orders", value=Order)
    return declared


def orders(app: gs.App) -> gs.Topic:
    return app.graph.topics["orders"]


def test_files_are_declared_with_their_folder_their_format_and_the_topic_of_their_marks(app: gs.App) -> None:
    declared = app.files("orders-in", folder="in", to=orders(app), format="csv", quiet="5 seconds")
    assert (declared.folder, declared.format, declared.quiet) == (Path("in"), "csv", timedelta(seconds=5))
    assert declared.marks == "food.orders-in.files"
    assert declared.defined_at.file.endswith("test_app_sources.py")
    assert app.graph.file_sources == {"orders-in": declared}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"format": "xml"}, r"unknown format 'xml' .*; use 'csv'"),
        ({"folder": ""}, "have no folder"),
        ({"to": "orders"}, "files second writes to 'orders' .*; pass a topic declared with app.topic"),
        ({"quiet": "soon"}, "quiet: "),
        ({"name": "no blanks"}, "invalid source name"),
        ({"name": "first"}, r"source first is declared twice .*test_app_sources.py"),
        ({"folder": "in"}, "take the same files"),
    ],
)
def test_files_that_cannot_be_are_refused_where_they_are_declared(
    app: gs.App, wrong: dict[str, Any], message: str
) -> None:
    app.files("first", folder="in", to=orders(app), format="csv")
    options = {"name": "second", "folder": "in-2", "to": orders(app), "format": "csv", **wrong}
    with pytest.raises(DefinitionError, match=message) as caught:
        app.files(options.pop("name"), **options)
    assert caught.value.line


def test_a_port_is_declared_for_this_machine_unless_it_has_a_token(app: gs.App) -> None:
    declared = app.http(topics=[orders(app)], port=8088)
    assert (declared.name, declared.host, declared.token_variable) == ("http", "127.0.0.1", None)
    assert app.graph.http_sources == {"http": declared}
    with_token = app.http(
        "open", topics=[orders(app)], port=8089, host="0.0.0.0", token="${env:INGEST_TOKEN}"
    )
    assert with_token.token_variable == "INGEST_TOKEN"
    over_tls = app.http("tls", topics=[orders(app)], port=8090, certificate="cert.pem", key="key.pem")
    assert (over_tls.certificate, over_tls.key) == (Path("cert.pem"), Path("key.pem"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"topics": []}, "has no topics"),
        ({"topics": ["orders"]}, r"http second writes to 'orders'"),
        ({"port": 70_000}, "has port 70000"),
        ({"port": 8088}, "and first have the same port 8088"),
        ({"host": "0.0.0.0"}, "would take records from anyone who reaches 0.0.0.0"),
        ({"name": "first"}, "source first is declared twice"),
        ({"key": "key.pem"}, "has a key but no certificate"),
    ],
)
def test_a_port_that_cannot_be_is_refused_where_it_is_declared(
    app: gs.App, wrong: dict[str, Any], message: str
) -> None:
    app.http("first", topics=[orders(app)], port=8088)
    options = {"name": "second", "topics": [orders(app)], "port": 8089, **wrong}
    with pytest.raises(DefinitionError, match=message) as caught:
        app.http(options.pop("name"), **options)
    assert caught.value.line


def test_a_token_in_the_file_is_refused_unseen(app: gs.App) -> None:
    with pytest.raises(DefinitionError, match="is not a reference") as caught:
        app.http(topics=[orders(app)], port=8088, token="s3cret")
    assert "s3cret" not in str(caught.value)


def test_no_source_writes_among_the_changes_of_a_database(app: gs.App) -> None:
    changes = app.cdc("shop", tables={"public.orders": Order}).topics["public.orders"]
    message = r"writes to shop\.public\.orders, which holds captured changes"
    with pytest.raises(DefinitionError, match=message):
        app.files("orders-in", folder="in", to=changes, format="csv")
    with pytest.raises(DefinitionError, match=message):
        app.http(topics=[changes], port=8088)
    with pytest.raises(DefinitionError, match=message):
        app.source(to=changes)(plain)


def plain() -> Iterator[Order]:
    yield Order(1)


def drawing(chance: Random) -> Iterator[Order]:
    yield Order(chance.randrange(9))


@pytest.mark.parametrize(
    ("options", "generate", "message"),
    [
        ({"rate": 0}, plain, "has rate=0"),
        ({"rate": float("inf")}, plain, "has rate=inf"),
        ({"time_factor": -1}, plain, "has time_factor=-1"),
        ({"out_of_order": 1.5, "seed": 1}, plain, r"out_of_order=1.5 .*; use a share"),
        ({"duplicates": 0.1}, plain, r"has duplicates but no seed .*; set seed=7"),
        ({"max_delay": "soon", "seed": 1}, plain, "max_delay: "),
        ({"day": [1, 2]}, plain, "has 2 weights"),
        ({"day": [0] * 24}, plain, "has a negative weight, or none above 0"),
        ({"day": lambda hour: -1.0}, plain, "has a negative weight"),
        ({}, drawing, "takes chance"),
    ],
)
def test_a_simulated_source_that_cannot_be_is_refused_where_it_is_declared(
    app: gs.App, options: dict[str, Any], generate: Callable[..., Iterator[Order]], message: str
) -> None:
    with pytest.raises(DefinitionError, match=message) as caught:
        app.source(to=orders(app), **options)(generate)
    assert caught.value.line
    assert app.source(to=orders(app), seed=7, day=range(24))(drawing) is drawing
