"""What reaches a remote store: its settings, in every client's words, and its failures in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gearshift.errors import SettingsError, StorageError, StorageUnreachableError
from gearshift.redaction import redact
from gearshift.settings import Settings, load
from gearshift.storage.access import access_to, delta_options, spark_options
from gearshift.storage.failures import storage_failure

SECRET = "the-secret-of-this-test"


def loaded(folder: Path, storage: dict[str, Any], environ: dict[str, str] | None = None) -> Settings:
    """Settings with tables in a bucket."""
    flags = {"warehouse": "s3a://bucket-of-settings/w", **({"storage": storage} if storage else {})}
    return load(flags, folder=folder, environ=environ or {})


def test_one_block_reaches_every_client_and_its_secrets_no_text(tmp_path: Path) -> None:
    keys = {"access_key": "the-access-key", "secret_key": SECRET}
    settings = loaded(tmp_path, {"endpoint": "https://s3.example.com/", "region": "eu-central-1", **keys})
    for_delta = delta_options(settings.warehouse_uri) or {}
    for_spark = spark_options([settings.warehouse_uri])
    assert for_delta["aws_secret_access_key"] == for_spark["spark.hadoop.fs.s3a.secret.key"] == SECRET
    assert for_delta["aws_endpoint"] == for_spark["spark.hadoop.fs.s3a.endpoint"] == "https://s3.example.com"
    assert for_delta["aws_region"] == for_spark["spark.hadoop.fs.s3a.endpoint.region"] == "eu-central-1"
    assert for_spark["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert "aws_allow_http" not in for_delta
    assert SECRET not in f"{settings!r} {access_to(settings.warehouse_uri)!r} {redact(f'it is {SECRET}')}"
    assert Settings.model_validate(settings.revealed()).storage == settings.storage


def test_keys_come_from_the_environment_too(tmp_path: Path) -> None:
    environ = {
        "GEARSHIFT_STORAGE__ACCESS_KEY": "another-key",
        "GEARSHIFT_STORAGE__SECRET_KEY": "another-secret",
    }
    assert loaded(tmp_path, {}, environ).storage.access.access_key == "another-key"


@pytest.mark.parametrize(
    ("storage", "why"),
    [
        ({"endpoint": "http://s3.example.com"}, "must be https://"),
        ({"endpoint": "http://127.0.0.1.example.com"}, "must be https://"),
        ({"endpoint": "https://me:pw@s3.example.com"}, "must be https://host"),
        ({"access_key": "alone"}, "belong together"),
        ({"session_token": "alone"}, "belongs to an access_key"),
        ({"bucket": "b"}, "storage.bucket"),
    ],
)
def test_a_block_that_cannot_be_meant_is_refused(tmp_path: Path, storage: dict[str, str], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        loaded(tmp_path, storage)


def test_files_and_hdfs_need_no_options() -> None:
    assert delta_options("file:///tables") is None
    assert delta_options("hdfs://host:9000/tables") is None
    assert spark_options(["file:///tables", "hdfs://host:9000/tables"]) == {}


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ("<Code>NoSuchBucket</Code>", StorageError, "bucket gear does not exist"),
        ("<Code>SignatureDoesNotMatch</Code>", StorageError, "rejected the access key"),
        ("<Code>AccessDenied</Code>", StorageError, "access denied to these keys"),
        ("tcp connect error: Connection refused", StorageUnreachableError, "the store does not answer"),
    ],
)
def test_a_failure_of_a_store_is_one_sentence(text: str, kind: type[StorageError], sentence: str) -> None:
    failure = storage_failure("s3a://gear/tables", OSError(text))
    assert type(failure) is kind
    assert sentence in str(failure)
    assert failure is not None and failure.hint


def test_what_is_no_failure_of_a_store_stays_what_it_is() -> None:
    assert storage_failure("s3a://gear/tables", ValueError("division by zero")) is None
