"""Settings come from flags, the environment, the file and defaults, in that order; errors name the setting."""

from __future__ import annotations

import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gearshift.connection import Connection
from gearshift.errors import SettingsError
from gearshift.settings import Settings, load

SECRET = "correct-horse-battery-staple"


def write(folder: Path, text: str) -> None:
    (folder / "gearshift.toml").write_text(text, encoding="utf-8")


def refused(folder: Path, flags: dict[str, Any] | None = None, **environ: str) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        load(flags, folder=folder, environ=environ)
    return caught.value


def test_a_flag_beats_the_environment_beats_the_file_beats_the_default(tmp_path: Path) -> None:
    def brokers(flags: dict[str, Any] | None = None, **environ: str) -> int:
        return load(flags, folder=tmp_path, environ=environ).brokers

    assert brokers() == 1
    write(tmp_path, "brokers = 3")
    assert brokers() == 3
    assert brokers(GEARSHIFT_BROKERS="1") == 1
    assert brokers({"brokers": 3}, GEARSHIFT_BROKERS="1") == 3
    assert brokers({"brokers": None}, GEARSHIFT_BROKERS="1") == 1


def test_client_properties_of_all_places_are_laid_over_each_other(tmp_path: Path) -> None:
    write(tmp_path, '[kafka]\n"sasl.username" = "file"\n"security.protocol" = "SASL_SSL"')
    found = load(folder=tmp_path, environ={"GEARSHIFT_KAFKA__SASL_USERNAME": "environment"})
    assert {name: value.get_secret_value() for name, value in found.kafka.items()} == {
        "sasl.username": "environment",
        "security.protocol": "SASL_SSL",
    }


def test_an_unknown_key_is_named_with_file_line_and_the_key_that_was_meant(tmp_path: Path) -> None:
    write(tmp_path, 'brokers = 1\n\nbootstrap_server = "there:9092"\n')
    error = refused(tmp_path)
    assert error.what == "unknown setting 'bootstrap_server'"
    assert error.hint == "did you mean 'bootstrap_servers'?"
    assert (error.file, error.line) == (str(tmp_path / "gearshift.toml"), 3)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("brokers = 1\nbroker = 3\n", 2),
        ('home = "x"\n[kafkas]\n"sasl.username" = "u"\n', 2),
        ('[profile.prod]\nbrokers = 3\nbroker = "x"\n', 3),
        ('[profile.prod.sparks]\n"spark.x" = "y"\n', 1),
    ],
)
def test_the_line_of_an_unknown_key_is_its_own(tmp_path: Path, text: str, line: int) -> None:
    write(tmp_path, text)
    flags = {"profile": "prod"} if "profile" in text else None
    assert refused(tmp_path, flags).line == line


def test_a_key_like_no_other_is_answered_with_all_settings(tmp_path: Path) -> None:
    write(tmp_path, "zzz = 1")
    hint = refused(tmp_path).hint or ""
    assert all(name in hint for name in Settings.model_fields)


def test_an_unknown_variable_is_named(tmp_path: Path) -> None:
    error = refused(tmp_path, GEARSHIFT_BROKER="3")
    assert error.what == "unknown setting GEARSHIFT_BROKER"
    assert error.hint == "did you mean 'brokers'?"


def test_a_variable_of_somebody_else_is_none_of_ours(tmp_path: Path) -> None:
    assert load(folder=tmp_path, environ={"SPARK_HOME": "x", "GEARSHIF_BROKERS": "7"}).brokers == 1


@pytest.mark.parametrize("service", ["GEARSHIFT", "GEARSHIFT_CONSOLE", "GEARSHIFT_BROKRES"])
def test_what_kubernetes_says_of_a_service_is_no_setting(tmp_path: Path, service: str) -> None:
    told = {
        f"{service}_SERVICE_HOST": "10.0.0.1",
        f"{service}_SERVICE_PORT": "9090",
        f"{service}_SERVICE_PORT_HTTP": "9090",
        f"{service}_PORT": "tcp://10.0.0.1:9090",
        f"{service}_PORT_9090_TCP": "tcp://10.0.0.1:9090",
        f"{service}_PORT_9090_TCP_PROTO": "tcp",
        f"{service}_PORT_9090_TCP_PORT": "9090",
        f"{service}_PORT_9090_TCP_ADDR": "10.0.0.1",
    }
    found = load(folder=tmp_path, environ={**told, "GEARSHIFT_BROKERS": "3"})
    assert (found.brokers, found.console_port) == (3, None)


@pytest.mark.parametrize(
    ("typo", "value"),
    [("GEARSHIFT_BROKRES", "3"), ("GEARSHIFT_CONSOL_PORT", "9090"), ("GEARSHIFT_SERVICE", "connect")],
)
def test_a_typo_is_still_an_error_on_kubernetes(tmp_path: Path, typo: str, value: str) -> None:
    error = refused(tmp_path, GEARSHIFT_SERVICE_HOST="10.0.0.1", **{typo: value})
    assert error.what == f"unknown setting {typo}"
    assert error.hint is not None and error.hint.startswith("did you mean")


@pytest.mark.parametrize("first", ["GEARSHIFT_KAFKA", "GEARSHIFT_KAFKA__SASL_USERNAME"])
def test_a_whole_setting_and_one_entry_of_it_exclude_each_other(tmp_path: Path, first: str) -> None:
    names = sorted(("GEARSHIFT_KAFKA", "GEARSHIFT_KAFKA__SASL_USERNAME"), key=lambda name: name != first)
    error = refused(tmp_path, **dict.fromkeys(names, "x"))
    assert "both set" in error.what and "GEARSHIFT_KAFKA" in error.what


def test_a_profile_is_laid_over_the_file_and_under_the_environment(tmp_path: Path) -> None:
    write(tmp_path, 'brokers = 1\n[profile.prod]\nbrokers = 3\nbootstrap_servers = "prod:9092"\n')
    assert load(folder=tmp_path, environ={}).bootstrap_servers is None
    chosen = load({"profile": "prod"}, folder=tmp_path, environ={})
    assert (chosen.brokers, chosen.bootstrap_servers, chosen.profile) == (3, "prod:9092", "prod")
    environ = {"GEARSHIFT_PROFILE": "prod", "GEARSHIFT_BROKERS": "1"}
    assert load(folder=tmp_path, environ=environ).brokers == 1


def test_a_profile_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    assert refused(tmp_path, {"profile": "prod"}).hint == "add [profile.prod] to gearshift.toml"
    write(tmp_path, "[profile.test]\nbrokers = 1\n[profile.prod]\nbrokers = 3\n")
    error = refused(tmp_path, GEARSHIFT_PROFILE="prd")
    assert (error.what, error.hint) == ("unknown profile 'prd'", "use test, prod")


@pytest.mark.parametrize("text", ['profile = "prod"', "[profile]\nprod = 3"])
def test_a_profile_that_is_no_table_is_refused(tmp_path: Path, text: str) -> None:
    write(tmp_path, text)
    error = refused(tmp_path)
    assert "[profile.NAME]" in (error.hint or "") and error.file


def test_bad_toml_is_refused_with_file_and_line(tmp_path: Path) -> None:
    write(tmp_path, "brokers = 1\nhome = \n")
    error = refused(tmp_path)
    assert "not valid TOML" in error.what and "line 2" in error.what
    assert error.file == str(tmp_path / "gearshift.toml")
    (tmp_path / "gearshift.toml").write_bytes(b'home = "\xff"')
    assert "not valid TOML" in refused(tmp_path).what


@pytest.mark.parametrize("home", ["5", '""', r'"\u0000"', "[]"])
def test_a_home_that_is_no_folder_is_refused(tmp_path: Path, home: str) -> None:
    write(tmp_path, f"home = {home}")
    error = refused(tmp_path)
    assert error.what == "setting home: is not the path of a folder"
    assert str(tmp_path / "gearshift.toml") in (error.hint or "")


def test_a_byte_order_mark_before_the_settings_is_ignored(tmp_path: Path) -> None:
    write(tmp_path, "\ufeffbrokers = 3")
    assert load(folder=tmp_path, environ={}).brokers == 3


def test_a_kafka_property_that_opens_no_connection_is_refused(tmp_path: Path) -> None:
    write(tmp_path, '[kafka]\n"group.id" = "mine"')
    error = refused(tmp_path)
    assert "group.id is not a connection property" in error.what and "sasl." in error.what
    assert str(tmp_path / "gearshift.toml") in (error.hint or "")


@pytest.mark.parametrize(
    ("flags", "environ", "place"),
    [
        ({"brokers": 2}, {}, "--brokers"),
        (None, {"GEARSHIFT_BROKERS": "2"}, "GEARSHIFT_BROKERS"),
        (None, {"GEARSHIFT_BROKERS": "many"}, "GEARSHIFT_BROKERS"),
        (None, {"GEARSHIFT_CHECKPOINT_INTERVAL": "1 second"}, "GEARSHIFT_CHECKPOINT_INTERVAL"),
        (None, {"GEARSHIFT_KAFKA": "x"}, "GEARSHIFT_KAFKA"),
    ],
)
def test_a_wrong_value_is_named_with_the_place_to_change_it(
    tmp_path: Path, flags: dict[str, Any] | None, environ: dict[str, str], place: str
) -> None:
    error = refused(tmp_path, flags, **environ)
    assert error.what.startswith(f"setting {place.lower().removeprefix('gearshift_').lstrip('-')}: ")
    assert error.hint == f"change {place}"


def test_durations_are_read_in_words(tmp_path: Path) -> None:
    def interval(text: str) -> timedelta:
        return load({"checkpoint_interval": text}, folder=tmp_path, environ={}).checkpoint_interval

    assert interval("5 seconds") == timedelta(seconds=5)
    assert interval("2 min") == timedelta(minutes=2)
    assert "'soon' is not a duration" in refused(tmp_path, {"checkpoint_interval": "soon"}).what
    assert "at least 5 seconds" in refused(tmp_path, {"checkpoint_interval": "4999 ms"}).what


def test_secrets_are_in_no_representation_and_in_no_error(tmp_path: Path) -> None:
    write(
        tmp_path,
        f'[kafka]\n"sasl.password" = "{SECRET}"\n[registry]\n"basic.auth.user.info" = "u:{SECRET}"\n[spark]\n"spark.hadoop.fs.s3a.secret.key" = "{SECRET}"',
    )
    found = load(folder=tmp_path, environ={})
    connection = Connection.of(found, bootstrap_servers="there:9092", registry_url="http://there")
    assert connection.kafka["sasl.password"] == SECRET
    for shown in (found, connection):
        assert SECRET not in repr(shown) and SECRET not in str(shown)
    for environ in (
        {"GEARSHIFT_KAFKA_SASL_PASSWORD": SECRET},
        {"GEARSHIFT_KAFKA__PASSWORD": SECRET},
        {"GEARSHIFT_KAFKA": SECRET},
        {"GEARSHIFT_REGISTRY": SECRET},
    ):
        error = refused(tmp_path, **environ)
        assert SECRET not in str(error) and SECRET not in repr(error)
        assert SECRET not in "".join(traceback.format_exception(error))
    write(tmp_path, f'[kafka]\n"sasl.password" = "{SECRET}')
    assert SECRET not in str(refused(tmp_path))


def test_home_is_under_the_folder_where_the_command_started(tmp_path: Path) -> None:
    assert load(folder=tmp_path, environ={}).home == tmp_path / ".gearshift"
    assert load({"home": "elsewhere"}, folder=tmp_path, environ={}).home == tmp_path / "elsewhere"
    assert load({"home": Path("/x")}, folder=tmp_path, environ={}).checkpoints_uri == "file:///x/checkpoints"
    assert load({"warehouse": "s3://b/w"}, folder=tmp_path, environ={}).warehouse_uri == "s3://b/w"


def test_an_account_in_the_registrys_address_is_split_off() -> None:
    found = load({"registry_url": "https://me:p%40ss@registry:8081/apis"}, environ={})
    assert found.registry_url == "https://registry:8081/apis"
    assert found.registry["basic.auth.user.info"].get_secret_value() == "me:p@ss"
    assert "p%40ss" not in repr(found) + str(found.model_dump())
    with pytest.raises(SettingsError, match="both have a user"):
        load(
            {"registry_url": "https://me:pw@registry", "registry": {"basic.auth.user.info": "you:pw"}},
            environ={},
        )
