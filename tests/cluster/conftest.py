"""The stores, each started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gearshift import stack as local
from gearshift.settings import load
from gearshift.stack.processes.restarts import ServiceSupervisor
from tests.cluster.object_store import ObjectStore


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """An S3 server that checks keys."""
    with ObjectStore(tmp_path_factory.mktemp("s3") / "server.log") as running:
        yield running


@pytest.fixture(scope="session")
def unchecked_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """One that takes any keys, and folders of any name."""
    with ObjectStore(tmp_path_factory.mktemp("s3-unchecked") / "server.log", checked=False) as running:
        yield running


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[local.Stack]:
    """A NameNode and a DataNode, which are started again when they end."""
    settings = load(
        {
            "home": tmp_path_factory.mktemp("hdfs"),
            "bootstrap_servers": "127.0.0.1:1",
            "registry_url": "http://127.0.0.1:1",
            "services": "hdfs",
        },
        environ={},
    )
    with local.up(settings) as running, ServiceSupervisor(running, progress=print):
        yield running
