"""The fixtures of the pytest plugin; pytest loads this module in every run, so it imports nothing that takes time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gearshift.settings import Settings
    from gearshift.stack import Stack
    from gearshift.testing.clock import Clock
    from gearshift.testing.delivering import Deliver
    from gearshift.testing.gateways import HttpGateway, SmtpGateway
    from gearshift.testing.running import Run
    from gearshift.testing.sessions import Sessions
    from gearshift.testing.transforming import Transform

_SESSIONS = pytest.StashKey["Sessions"]()
_OURS = "gearshift_"
# Where jars are kept is the machine's business; everything else of a user's settings must not reach a test.
_ENVIRON = ("GEARSHIFT_CACHE",)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Close Spark before a test that does not use it from here: it may open a session with settings of its own."""
    sessions = item.config.stash.get(_SESSIONS, None)
    names: Any = getattr(item, "fixturenames", ())
    if sessions is not None and not any(name.startswith(_OURS) for name in names):
        sessions.close()


@pytest.fixture(scope="session")
def gearshift_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Kafka and a schema registry of this run."""
    from gearshift import stack

    with stack.up(_settings(tmp_path_factory, "stack")) as running:
        yield running


@pytest.fixture(scope="session")
def gearshift_stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Cassandra and PostgreSQL of this run, without Kafka; `find_service` has their addresses."""
    from gearshift import stack

    # Addresses that nobody uses: with them no local Kafka is started.
    nowhere = {"bootstrap_servers": "127.0.0.1:1", "registry_url": "http://127.0.0.1:1"}
    with stack.up(_settings(tmp_path_factory, "stores", services="cassandra,postgres", **nowhere)) as running:
        yield running


@pytest.fixture(scope="session")
def _gearshift_sessions(  # pyright: ignore[reportUnusedFunction]
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Sessions]:
    from gearshift.testing.sessions import Sessions

    settings = _settings(tmp_path_factory, "spark")
    sessions = request.config.stash[_SESSIONS] = Sessions(settings.home, settings)
    yield sessions
    sessions.close()


@pytest.fixture
def gearshift_spark(_gearshift_sessions: Sessions) -> SparkSession:
    """The SparkSession that the tests of a run share."""
    return _gearshift_sessions.open()


@pytest.fixture
def gearshift_transform(_gearshift_sessions: Sessions) -> Transform:
    """Calls a pipeline's function on static frames of values."""
    from gearshift.testing.transforming import Transform

    return Transform(_gearshift_sessions)


@pytest.fixture
def gearshift_clock() -> Clock:
    """The time at which calendars look for intervals that are due."""
    from gearshift.testing.clock import Clock

    return Clock()


@pytest.fixture
def gearshift_run(
    _gearshift_sessions: Sessions,
    gearshift_clock: Clock,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Run:
    """Runs a pipeline on real Kafka and Spark in every gear that it can use."""
    from gearshift.testing.running import Run

    def connect() -> Any:
        return request.getfixturevalue("gearshift_stack").connection

    return Run(_gearshift_sessions, connect, gearshift_clock, tmp_path_factory.mktemp("gearshift"))


@pytest.fixture
def gearshift_deliver(gearshift_stack: Stack) -> Deliver:
    """Runs a delivery on its real consumer."""
    from gearshift.testing.delivering import Deliver

    return Deliver(gearshift_stack.connection)


@pytest.fixture
def gearshift_sms() -> Iterator[HttpGateway]:
    """An SMS provider; `accounts` has the account that may send, with its token."""
    from gearshift.testing.gateways import HttpGateway

    with HttpGateway(accounts={"AC0": "token"}, deduplicate=True) as gateway:
        yield gateway


@pytest.fixture
def gearshift_webhook() -> Iterator[HttpGateway]:
    """A receiver of webhooks, which accepts only those that are signed with its `secret`."""
    from gearshift.testing.gateways import HttpGateway

    with HttpGateway(secret="whsec_Z2VhcnNoaWZ0LXRlc3Rpbmctd2ViaG9va3M=", deduplicate=True) as gateway:
        yield gateway


@pytest.fixture
def gearshift_mail() -> Iterator[SmtpGateway]:
    """A mail server; `users` has the user that may send, with the password."""
    from gearshift.testing.gateways import SmtpGateway

    with SmtpGateway(users={"tester": "password"}) as gateway:
        yield gateway


def _settings(tmp_path_factory: pytest.TempPathFactory, name: str, **given: Any) -> Settings:
    from gearshift.settings import load

    folder = tmp_path_factory.mktemp(f"gearshift-{name}")
    environ = {name: os.environ[name] for name in _ENVIRON if name in os.environ}
    return load({"home": folder, **given}, folder=folder, environ=environ)
