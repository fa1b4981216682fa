"""One stack for all tests of a process: each has its own topics, folders and apps on it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from gearshift import stack as local
from gearshift.connection import Connection
from gearshift.settings import Settings, load
from gearshift.spark.session import start_java
from gearshift.stack.artifacts.artifacts import jars
from tests.support import cluster

# Java processes of tests live too short for what its second compiler costs them.
os.environ.setdefault(
    "JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
)
# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy")


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[local.Stack]:
    """Kafka and the registry, started once."""
    settings = load({"home": tmp_path_factory.mktemp("stack")}, environ={})
    with local.up(settings) as running:
        yield running


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[local.Stack]:
    """Cassandra and PostgreSQL, started once when the first test asks; they need no Kafka."""
    settings = load(
        {
            "home": tmp_path_factory.mktemp("stores"),
            "bootstrap_servers": "127.0.0.1:1",
            "registry_url": "http://127.0.0.1:1",
            "services": "cassandra,postgres",
        },
        environ={},
    )
    with local.up(settings) as running:
        yield running


@pytest.fixture(scope="session")
def gearshift_stack(stack: local.Stack) -> local.Stack:
    """What the fixtures of `gearshift.testing` run on: the same stack."""
    return stack


@pytest.fixture(scope="session")
def gearshift_stores(stores: local.Stack) -> local.Stack:
    """The same stores."""
    return stores


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Spark's Java process, which a Python process starts once: with the jars that any test may need of it."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    folder = tmp_path_factory.mktemp("java")
    found = jars("spark", cache=load({}, environ={}).cache)
    settings = load({"home": folder, "spark": {"spark.jars": ",".join(map(str, found))}}, environ={})
    return start_java(settings, log_file=folder / "spark.log")


@pytest.fixture
def connection(stack: local.Stack) -> Connection:
    """How clients reach the session's stack."""
    return stack.connection


@pytest.fixture
def settings(stack: local.Stack, tmp_path: Path) -> Settings:
    """Settings of a new user in an empty folder, on the session's stack, with the shortest checkpoint interval."""
    return load(
        {
            "home": tmp_path / "home",
            **cluster(stack.connection),
            "checkpoint_interval": "5 seconds",
        },
        folder=tmp_path,
        environ={},
    )


@pytest.fixture
def unique() -> str:
    """A name nobody else uses."""
    return f"t{uuid.uuid4().hex[:8]}"
