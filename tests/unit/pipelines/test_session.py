"""Settings with which a Spark session is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gearshift.definitions import Graph
from gearshift.errors import SettingsError
from gearshift.settings import load
from gearshift.spark import masters, session

GRAPH = Graph(app="shop", timezone="UTC")
HDFS = {"checkpoints": "hdfs://n:1/c", "warehouse": "hdfs://n:1/w"}


@pytest.mark.parametrize(
    "master", ["spark://10.0.0.7:7077", "spark://127.0.0.1:1,far:1", "yarn", "k8s://h:1"]
)
@pytest.mark.parametrize("on_disk", ["checkpoints", "warehouse"])
def test_executors_on_other_machines_are_refused_a_disk_of_this_one(
    tmp_path: Path, master: str, on_disk: str
) -> None:
    flags = {**HDFS, "home": tmp_path, "spark_master": master, on_disk: None}
    with pytest.raises(SettingsError, match=f"{on_disk} are at file:///.* do not share.*set {on_disk} to"):
        session.open_session(GRAPH, load(flags, environ={}), ())


@pytest.mark.parametrize(
    ("master", "flags"),
    [("local[4]", {}), ("spark://127.0.0.1:7077", {}), ("spark://localhost:1", {}), ("yarn", HDFS)],
)
def test_what_shares_the_storage_may_start(
    tmp_path: Path, master: str, flags: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class StartedError(Exception):
        """The point after all refusals."""

    def start(*_: object) -> dict[str, str]:
        raise StartedError

    monkeypatch.setattr(session, "_configuration", start)
    monkeypatch.setattr(masters, "require_answer", lambda master: None)
    with pytest.raises(StartedError):
        session.open_session(GRAPH, load({**flags, "home": tmp_path, "spark_master": master}, environ={}), ())


def test_jars_and_java_options_of_the_user_are_added_to_those_of_gearshift(tmp_path: Path) -> None:
    java = "spark.executor.extraJavaOptions"
    spark = {"spark.jars": "/opt/own.jar,/opt/other.jar", java: "-Dmine=1", "spark.jars.packages": "a:b:1"}
    found = session._configuration(load({"home": tmp_path, "spark": spark}, environ={}), ["ours.jar"], None)
    ours, functions, *theirs = found["spark.jars"].split(",")
    assert (ours, theirs) == ("ours.jar", ["/opt/own.jar", "/opt/other.jar"])
    assert Path(functions).name.startswith("gearshift-")
    assert "avro.limits" in found[java] and found[java].endswith("-Dmine=1")
    assert found["spark.jars.packages"] == "a:b:1"
