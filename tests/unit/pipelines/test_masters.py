"""What a cluster cannot use is refused before Spark starts, with the setting to change."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import gearshift as gs
from gearshift.errors import ClusterError, SettingsError
from gearshift.settings import load
from gearshift.spark import masters, session
from tests.flow import Event
from tests.support import closed_port

CLUSTERS = ("spark://10.0.0.7:7077", "spark://127.0.0.1:1,far:1", "yarn", "k8s://h:1")


def app() -> gs.App:
    made = gs.App("shop")
    events = made.topic("events", value=Event, key="key")

    @made.pipeline(source=events, to=events, gear="near-real-time")
    def copy(events):  # type: ignore[no-untyped-def]
        return events

    return made


@pytest.mark.parametrize("master", CLUSTERS)
@pytest.mark.parametrize("servers", ["localhost:9092", "kafka:9092, 127.0.0.1:9092", "[::1]:9092"])
def test_executors_on_other_machines_are_refused_a_kafka_on_loopback(master: str, servers: str) -> None:
    settings = load({"spark_master": master, "bootstrap_servers": servers}, environ={})
    with pytest.raises(
        SettingsError, match=r"loopback address that the executors of .*; set bootstrap_servers"
    ):
        masters.require_shared_kafka(app().graph, settings)


def test_executors_on_other_machines_are_refused_the_local_stacks_kafka() -> None:
    settings = load({"spark_master": "yarn"}, environ={})
    with pytest.raises(
        SettingsError, match=r"bootstrap_servers is not set, and .* yarn cannot reach a local"
    ):
        masters.require_shared_kafka(app().graph, settings)


@pytest.mark.parametrize(
    "master", [None, "local[4]", "spark://127.0.0.1:7077", "spark://localhost:1,[::1]:2"]
)
def test_a_kafka_on_loopback_is_fine_for_executors_on_this_machine(master: str | None) -> None:
    masters.require_shared_kafka(app().graph, load({"spark_master": master}, environ={}))


def test_an_app_of_tables_needs_no_kafka_on_its_cluster() -> None:
    masters.require_shared_kafka(gs.App("tables").graph, load({"spark_master": "yarn"}, environ={}))


@pytest.mark.parametrize("setting", ["checkpoints", "warehouse"])
def test_executors_on_other_machines_are_refused_an_hdfs_on_loopback(setting: str) -> None:
    stores = {"checkpoints": "hdfs://n:1/c", "warehouse": "hdfs://n:1/w", setting: "hdfs://127.0.0.1:9000/x"}
    with pytest.raises(SettingsError, match=f"{setting} are at .* loopback .*; set {setting} to a URI"):
        masters.require_shared_storage("yarn", load(stores, environ={}))


def test_executors_on_other_machines_are_refused_an_object_store_on_loopback() -> None:
    stores = {
        "checkpoints": "s3a://b/c",
        "warehouse": "s3a://b/w",
        "storage": {"endpoint": "http://127.0.0.1:9000"},
    }
    with pytest.raises(SettingsError, match=r"loopback .*; set storage\.endpoint"):
        masters.require_shared_storage("spark://far:7077", load(stores, environ={}))


@pytest.mark.parametrize(
    "form", ["spark://127.0.0.1:{}", "spark://127.0.0.1:{},localhost:{}", "k8s://127.0.0.1:{}"]
)
def test_a_master_that_does_not_answer_is_one_sentence_before_spark_starts(form: str, tmp_path: Path) -> None:
    master = form.format(closed_port(), closed_port())
    stores = {"checkpoints": "hdfs://n:1/c", "warehouse": "hdfs://n:1/w", "home": tmp_path}
    began = time.monotonic()
    with pytest.raises(
        ClusterError, match=r"does not answer at 127.0.0.1:.*; check .* or change spark_master"
    ):
        session.open_session(app().graph, load({**stores, "spark_master": master}, environ={}), ())
    assert time.monotonic() - began < 10


def test_yarn_without_its_configuration_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    refused = r"names a folder with yarn-site\.xml; set HADOOP_CONF_DIR"
    with pytest.raises(SettingsError, match=refused):
        masters.require_answer("yarn")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(SettingsError, match=refused):
        masters.require_answer("yarn")
    (tmp_path / "yarn-site.xml").write_text("<configuration>", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"cannot read .*yarn-site\.xml: .*; fix the file"):
        masters.require_answer("yarn")


def test_a_resource_manager_that_does_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    address = f"127.0.0.1:{closed_port()}"
    (tmp_path / "yarn-site.xml").write_text(
        f"<configuration><property><name>yarn.resourcemanager.address</name><value>{address}</value></property>"
        "</configuration>",
        encoding="utf-8",
    )
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    assert masters.on_one_machine("yarn")
    with pytest.raises(ClusterError, match=f"yarn does not answer at {address}; check that it is running"):
        masters.require_answer("yarn")


def test_what_spark_says_at_its_start_is_one_sentence() -> None:
    raised = RuntimeError(
        "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
        ": java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n"
        "\tat org.apache.spark.SparkContext.assertNotStopped(SparkContext.scala:124)"
    )
    error = masters.not_started("spark://h:8080", raised, Path("spark.log"))
    assert str(error).startswith(
        "Spark did not start on spark://h:8080: Cannot call methods on a stopped Spark"
    )
    assert error.hint is not None and error.hint.endswith("see spark.log")
    assert (
        masters.not_started("yarn", RuntimeError(), None).what == "Spark did not start on yarn: RuntimeError"
    )
