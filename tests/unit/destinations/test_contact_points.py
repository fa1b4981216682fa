"""Parsing of the Cassandra contact points."""

from __future__ import annotations

from pathlib import Path

import pytest

from gearshift.destinations import Cassandra
from gearshift.destinations.cassandra.driver import ContactPoints, Tls
from gearshift.errors import DefinitionError

SECRET = "pass?w@rd/1"


def test_a_password_is_not_sent_unencrypted() -> None:
    for nodes in ("10.0.0.1", "127.0.0.1,db.example:9043"):
        with pytest.raises(DefinitionError, match=r"password would be sent unencrypted to (10|db)") as caught:
            Cassandra(table="a.b", key="c", contact_points=f"ann:{SECRET}@{nodes}")
        assert Path(caught.value.file or "").name == Path(__file__).name
        assert SECRET not in str(caught.value)
    for points in (
        f"ann:{SECRET}@10.0.0.1?tls=true",
        f"ann:{SECRET}@10.0.0.1?ca=ca.pem",
        f"ann:{SECRET}@10.0.0.1?tls=false",
        f"ann:{SECRET}@127.0.0.1:9042",
        "10.0.0.1,10.0.0.2",
    ):
        read = ContactPoints.read(points)
        assert read.password in (SECRET, "")
        assert SECRET not in repr(read)


def test_tls_options_are_parsed() -> None:
    assert ContactPoints.read("db?tls=true").tls == Tls()
    named = ContactPoints.read("[::1]:9043,db?ca=/a/ca.pem&cert=us.pem&key=us%40home.key")
    assert named.nodes == (("::1", 9043), ("db", 9042))
    assert named.tls == Tls("/a/ca.pem", "us.pem", "us@home.key")
    assert ContactPoints.read("db?tls=false").tls is ContactPoints.read("db").tls is None


@pytest.mark.parametrize("query", ["tls=maybe", "tls=false&ca=x", "key=x", "password=x", "tls", "="])
def test_unknown_options_are_rejected(query: str) -> None:
    with pytest.raises(DefinitionError, match="invalid TLS options in the Cassandra contact points"):
        ContactPoints.read(f"db?{query}")


def test_a_missing_or_invalid_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="cannot read the TLS files for Cassandra"):
        Tls(ca=str(tmp_path / "missing.pem")).context()
