"""What the contact points of Cassandra say, and what they may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from gearshift.destinations import Cassandra
from gearshift.destinations.cassandra_driver import ContactPoints, Tls
from gearshift.errors import DefinitionError

SECRET = "pass?w@rd/1"


def test_a_password_does_not_go_over_a_network_in_the_clear() -> None:
    for nodes in ("10.0.0.1", "127.0.0.1,db.example:9043"):
        with pytest.raises(
            DefinitionError, match=r"password would be readable on its way to (10|db)"
        ) as caught:
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


def test_tls_is_what_the_points_say() -> None:
    assert ContactPoints.read("db?tls=true").tls == Tls()
    named = ContactPoints.read("[::1]:9043,db?ca=/a/ca.pem&cert=us.pem&key=us%40home.key")
    assert named.nodes == (("::1", 9043), ("db", 9042))
    assert named.tls == Tls("/a/ca.pem", "us.pem", "us@home.key")
    assert ContactPoints.read("db?tls=false").tls is ContactPoints.read("db").tls is None


@pytest.mark.parametrize("query", ["tls=maybe", "tls=false&ca=x", "key=x", "password=x", "tls", "="])
def test_other_words_are_refused(query: str) -> None:
    with pytest.raises(DefinitionError, match="the contact points of Cassandra say something else"):
        ContactPoints.read(f"db?{query}")


def test_a_file_that_is_missing_or_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="TLS files for Cassandra cannot be read"):
        Tls(ca=str(tmp_path / "missing.pem")).context()
