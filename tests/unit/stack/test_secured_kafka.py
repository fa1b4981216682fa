"""A secured local Kafka: what is made for it, and when it is refused."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from gearshift.errors import StackError
from gearshift.settings import load
from gearshift.stack.lifecycle import secured
from gearshift.stack.services import kafka_login
from gearshift.stack.services.certificates import authority_file, server_file


def formatted(folder: Path, *, is_secured: bool) -> None:
    """Leave what a first start leaves."""
    kafka_login.secure(folder / "kafka", is_secured)
    (folder / "kafka" / "kafka-1").mkdir(parents=True)
    (folder / "kafka" / "kafka-1" / "meta.properties").touch()


def test_the_certificate_is_trusted_by_its_authority_and_both_are_for_the_owner_only(tmp_path: Path) -> None:
    kafka_login.secure(tmp_path, True)
    context = ssl.create_default_context(cafile=authority_file(tmp_path))
    assert len(context.get_ca_certs()) == 1
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(server_file(tmp_path))
    assert {file(tmp_path).stat().st_mode & 0o777 for file in (authority_file, server_file)} == {0o600}
    before = authority_file(tmp_path).read_text()
    kafka_login.secure(tmp_path, True)
    assert authority_file(tmp_path).read_text() == before


def test_clients_of_a_secured_kafka_are_not_the_superuser(tmp_path: Path) -> None:
    kafka_login.secure(tmp_path, True)
    client, superuser = (
        found(tmp_path, make=True) for found in (kafka_login.login_of, kafka_login.superuser_of)
    )
    assert (client.account.user, superuser.account.user) == ("gearshift", "admin")
    assert client.account.password != superuser.account.password
    assert client.client_properties()["security.protocol"] == "SASL_SSL"
    assert client.client_properties()["ssl.ca.location"] == str(authority_file(tmp_path))
    assert kafka_login.broker_properties(tmp_path, superuser)["super.users"] == "User:admin"


def test_a_plain_kafka_has_one_account(tmp_path: Path) -> None:
    kafka_login.secure(tmp_path, False)
    assert kafka_login.login_of(tmp_path, make=True) == kafka_login.superuser_of(tmp_path)


@pytest.mark.parametrize("is_secured", [True, False])
def test_the_data_decides_unless_the_settings_say_otherwise(tmp_path: Path, is_secured: bool) -> None:
    formatted(tmp_path, is_secured=is_secured)
    assert secured(load(folder=tmp_path, environ={}), tmp_path) is is_secured
    other = load({"secure": not is_secured}, folder=tmp_path, environ={})
    with pytest.raises(StackError, match=f"set secure = {str(is_secured).lower()}, set another home"):
        secured(other, tmp_path)
