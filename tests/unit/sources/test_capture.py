"""The connector's configuration, the database's address, and the errors for failures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gearshift as gs
from gearshift.errors import (
    ConnectError,
    DatabaseUnreachableError,
    SettingsError,
    SlotInUseError,
    SourceTableMissingError,
    WrongPasswordError,
)
from gearshift.sources.cdc.capture import _escaped  # pyright: ignore[reportPrivateUsage]
from gearshift.sources.cdc.connect_api import Connect
from gearshift.sources.cdc.connect_failures import explain
from gearshift.sources.cdc.connector_config import connector_config
from gearshift.sources.cdc.databases import Database


@dataclass
class Order:
    id: int


def test_the_configuration_has_a_reference_for_the_password_and_exact_names() -> None:
    tables = {"public.orders": Order, "public.riders": Order}
    capture = gs.App("food").cdc("orders-db", tables=tables, before=False)
    database = Database.read("postgresql://ann:hunter2@db:5433/food")
    config = connector_config(capture, database, "${env:PASSWORD}")
    assert "hunter2" not in str(config) + repr(database)
    assert config["database.password"] == "${env:PASSWORD}"
    assert config["table.include.list"] == r"public\.orders,public\.riders"
    assert (config["topic.prefix"], config["slot.name"]) == ("orders-db", "gearshift_food_orders_db")
    assert config["skipped.operations"] == "none"
    assert "replica.identity.autoset.values" not in config


def test_whole_rows_before_a_change_are_requested_from_the_database() -> None:
    capture = gs.App("food").cdc("orders-db", tables={"public.orders": Order})
    config = connector_config(capture, Database.read("postgresql://ann@db/food"), "${env:PASSWORD}")
    assert config["replica.identity.autoset.values"] == r"public\.orders:FULL"


def test_a_password_may_be_in_the_file_that_the_address_names(tmp_path: Path) -> None:
    file = tmp_path / "passwords"
    file.write_text("127.0.0.1:*:*:bo:wrong\n127.0.0.1:*:*:ann:a\\:b\\\\c\n")
    assert Database.read(f"postgresql://ann@127.0.0.1:1/food?passfile={file}").password == "a:b\\c"
    assert Database.read("postgresql://ann@127.0.0.1/food?passfile=/nowhere").password is None
    assert Database.read("postgresql://ann:p%40ss@db").password == "p@ss"


@pytest.mark.parametrize(
    "dsn", ["host=db user=ann", "mysql://ann@db/x", "postgresql://db/x", "postgresql://a@b:x/c"]
)
def test_another_kind_of_address_is_refused_without_being_shown(dsn: str) -> None:
    with pytest.raises(SettingsError, match="not a valid database address"):
        Database.read(dsn)


def test_mariadb_has_its_own_connector() -> None:
    capture = gs.App("food").cdc("shop-db", tables={"shop.orders": Order}, database="mariadb")
    database = Database.read("mariadb://ann:hunter2@db/shop", "mariadb")
    config = connector_config(capture, database, "${env:PASSWORD}", epoch=7, history={"kafka.x": "y"})
    assert "hunter2" not in str(config) + repr(database)
    assert config["connector.class"].endswith("MariaDbConnector")
    assert (config["database.port"], config["topic.prefix"]) == ("3306", "shop-db")
    assert config["schema.history.internal.kafka.topic"] == "food.shop-db.schemas.7"
    assert config["schema.history.internal.kafka.x"] == "y"
    assert "slot.name" not in config
    with pytest.raises(SettingsError, match=r"the setting mariadb is not a valid(?s:.*)mariadb://user"):
        Database.read("postgresql://ann@db/x", "mariadb")


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=30))
def test_any_password_is_one_line_of_ascii_that_java_reads_back(secret: str) -> None:
    written = _escaped(secret)
    assert written.isascii() and (not written or written.isprintable())
    units = [
        int(part[:4], 16).to_bytes(2, "big") + part[4:].encode("utf-16-be")
        for part in written.split("\\u")[1:]
    ]
    head = written.split("\\u")[0].encode("utf-16-be")
    assert (head + b"".join(units)).decode("utf-16-be") == secret


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ('FATAL: password authentication failed for user "ann"', WrongPasswordError),
        ("Access denied for user 'ann'@'db'", WrongPasswordError),
        ('PSQLException: ERROR: replication slot "orders" is active for PID 42', SlotInUseError),
        ("No table filters found for filtered publication orders", SourceTableMissingError),
        ("Connection to 127.0.0.1:1 refused. Check that the hostname", DatabaseUnreachableError),
        ("java.lang.Error: outer\nCaused by: java.lang.Error: inner", ConnectError),
        ("", ConnectError),
    ],
)
def test_every_failure_has_a_class_a_message_and_a_hint(words: str, kind: type[ConnectError]) -> None:
    error = explain("food.orders-db", words)
    assert type(error) is kind
    assert error.hint
    assert "\n" not in str(error)
    assert "connector food.orders-db: " in error.what


def test_an_unknown_failure_shows_its_innermost_cause_and_no_password() -> None:
    trace = "E: outer\nCaused by: E: middle\n\tat x\nCaused by: E: inner password=hunter2\n\tat y"
    assert explain("c", trace).what == "connector c: E: inner password=***"


@pytest.mark.parametrize("url", ["db:8083", "ftp://x", "http://", "http://x:y"])
def test_an_invalid_connect_url_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="connect_url is not"):
        Connect(url)
