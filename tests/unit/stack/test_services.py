"""Which optional services are started locally."""

from __future__ import annotations

from pathlib import Path

import pytest

from gearshift.errors import SettingsError
from gearshift.settings import load
from gearshift.stack.services.optional import local_services


@pytest.mark.parametrize(
    "text", ["cassandra,postgres", "cassandra, postgres,", "cassandra,postgres,cassandra"]
)
def test_services_are_read_from_flags_the_environment_and_the_file(tmp_path: Path, text: str) -> None:
    both = ("cassandra", "postgres")
    assert load({"services": text}, folder=tmp_path, environ={}).services == both
    assert load(folder=tmp_path, environ={"GEARSHIFT_SERVICES": text}).services == both
    (tmp_path / "gearshift.toml").write_text('services = ["cassandra", "postgres"]\n')
    assert load(folder=tmp_path, environ={}).services == both


def test_an_unknown_service_is_named_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"'mongo'; use cassandra, postgres, mariadb, connect, hdfs; change --with"
    ):
        load({"services": "mongo"}, folder=tmp_path, environ={})


def test_external_services_are_not_started(tmp_path: Path) -> None:
    own = {"GEARSHIFT_SERVICES": "cassandra,postgres", "GEARSHIFT_CASSANDRA": "ann:secret@db1,db2"}
    settings = load(folder=tmp_path, environ=own)
    assert local_services(settings) == ["postgres"]
    assert "secret" not in repr(settings)
