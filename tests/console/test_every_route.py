"""Every route of the API as its own document lists them: who is let in, and what no request can make it do."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import gearshift as gs
from gearshift import errors, tables
from gearshift.connection import Connection
from gearshift.console.console import Console, Emit
from gearshift.console.live import Live
from gearshift.console.routes import ROUTERS
from gearshift.console.server import ConsoleServer
from gearshift.pipelines.intervals.selection import interval_from
from gearshift.schemas import Registry
from gearshift.settings import load
from gearshift.stack import Stack
from gearshift.topics import Admin, DeadLetter, DeadLetters, GroupOffsets, Producer
from tests.arrow_frames import ArrowFrame, declared
from tests.consoles import FakeRun
from tests.support import cluster

SCRIPT = "<script>alert('x')</script>"
WRITES = ("POST", "PUT", "PATCH", "DELETE")
OPEN = {"/health", "/ready", "/metrics"}
READING_POSTS = {"/api/sql", "/api/schemas/{subject}/check"}
STREAMS = {"/api/events", "/api/topics/{topic}/tail", "/api/boards/{board}/events"}
NEW_PROCESS = {"/api/sql"}
"""Each request starts a process."""
NOW = datetime.now(UTC)


def document() -> dict[str, Any]:
    app = FastAPI()
    for router in ROUTERS:
        app.include_router(router)
    return app.openapi()


def routes() -> list[tuple[str, str]]:
    """Every method and path."""
    return [(method.upper(), path) for path, methods in document()["paths"].items() for method in methods]


ROUTES = routes()
GUARDED = [route for route in ROUTES if route[1] not in OPEN]
WRITING = [route for route in ROUTES if route[0] in WRITES]
GENERATED = [route for route in ROUTES if route[1] not in STREAMS]


@dataclass
class Reading:
    meter_id: str
    load_kw: float
    note: str | None = None


class Shop(FakeRun):
    """A running app with a pipeline of days, one of every record, a board and a topic."""

    def __init__(self, name: str) -> None:
        app = gs.App(name)
        self.readings = app.topic(f"{name}-readings", value=Reading, key="meter_id", partitions=2)
        sales = app.table("sales")

        @app.pipeline(sales, to=app.table("totals"), freshness="1 day", event_time="sold_at")
        def totals(sales: Any) -> Any:
            return sales

        @app.pipeline(self.readings, to=app.table("kept"), freshness="10 seconds")
        def keep(readings: Any) -> Any:
            return readings

        app.board("meters", gs.Number(self.readings))
        super().__init__(app, pipelines=[{"name": "totals", "intervals_in_progress": []}, {"name": "keep"}])

    def run_interval(self, pipeline: str, start: datetime) -> dict[str, Any]:
        found = interval_from(self.app.graph, pipeline, start, datetime.now(UTC))
        return {"pipeline": pipeline, "start": found.start.isoformat(), "end": found.end.isoformat()}

    def why(self, pipeline: str) -> dict[str, Any]:
        return {"pipeline": pipeline, "gear": "batch"}

    def shift_for(self, pipeline: str, gear: str, now: bool, emit: Emit, hold: str | None = None) -> None:
        emit({"shifted": {"pipeline": pipeline, "after": gear}})

    def scale_for(self, pipeline: str, partitions: int, emit: Emit) -> None:
        emit({"scaled": {"pipeline": pipeline, "after": partitions}})


@dataclass(frozen=True)
class Answer:
    """A response as it was received."""

    status: int
    headers: dict[str, str]
    body: bytes

    def require_json(self) -> Any:
        """Its JSON, which no browser takes for anything else."""
        assert self.headers["content-type"] == "application/json", self
        assert self.headers["x-content-type-options"] == "nosniff"
        return json.loads(self.body)

    def require_error(self) -> dict[str, Any]:
        """What went wrong, in the shape of all errors."""
        error = self.require_json()["error"]
        assert issubclass(getattr(errors, error["kind"]), errors.GearshiftError)
        assert error["what"]
        assert "hint" in error
        return error


@dataclass(frozen=True)
class Site:
    """A console, read-only for pages, and the names of what exists on its cluster."""

    server: ConsoleServer
    names: dict[str, str]

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        **headers: str,
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        given = {"Content-Type": "application/json", **headers}
        if token is not None:
            given["Authorization"] = f"Bearer {token}"
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, given)
            response = connection.getresponse()
            named = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, named, response.read())
        finally:
            connection.close()

    @property
    def token(self) -> str:
        """That of the command line."""
        return self.server.access.token

    def path(self, template: str) -> str:
        """The address of what exists."""
        return filled(template, self.names)


def filled(template: str, names: dict[str, str]) -> str:
    return template.format(**{name: quote(value, safe="") for name, value in names.items()})


@pytest.fixture(scope="module")
def site(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The real server on the session's Kafka, with an app whose topic, group and tables exist."""
    folder = tmp_path_factory.mktemp("routes")
    name = f"t{folder.stat().st_ino}"
    shop = Shop(name)
    fill_cluster(stack.connection, shop, name)
    warehouse = (folder / "warehouse").as_uri()
    frame = ArrowFrame({"sold_at": "timestamp", "note": "string"}, [(NOW - timedelta(days=1), SCRIPT)])
    tables.append(declared("sales"), tables.table_uri(warehouse, "sales"), frame, writer="w", batch_id=0)
    given = {"home": folder, "warehouse": warehouse, **cluster(stack.connection)}
    console = Console(
        settings=load(given, folder=folder, environ={}),
        connection=stack.connection,
        live=Live(shop.status),
        running=shop,
        read_only=True,
    )
    names = {
        "topic": shop.readings.name,
        "group": f"{name}-readers",
        "subject": f"{shop.readings.name}-value",
        "pipeline": "totals",
        "table": "sales",
        "board": "meters",
        "connector": "shop",
        "action": "pause",
    }
    server = ConsoleServer(console)
    server.open()
    try:
        yield Site(server, names)
    finally:
        server.close()


def fill_cluster(connection: Connection, shop: Shop, name: str) -> None:
    """Records, a dead letter and a group, with a script in all that a program may write."""
    topic = shop.readings
    with Admin(connection) as admin, Registry(connection) as registry:
        admin.ensure([topic])
        registry.register(topic)
        with Producer(connection, registry) as producer:
            for number in range(4):
                reading = Reading(f"{SCRIPT}{number}", number, SCRIPT)
                producer.send(topic, reading, headers=[(SCRIPT, SCRIPT.encode())])
    failed = DeadLetter(
        topic=topic.name,
        partition=0,
        offset=0,
        key=SCRIPT.encode(),
        value=SCRIPT.encode(),
        headers=((SCRIPT, SCRIPT.encode()),),
        app=name,
        pipeline="keep",
        reason=SCRIPT,
    )
    with DeadLetters(connection) as letters:
        letters.write([failed])
    readers = GroupOffsets(connection, f"{name}-readers")
    readers.commit({(topic.name, 0): 0, (topic.name, 1): 0})
    readers.close()


# Who is let in


def test_the_served_document_names_the_same_routes(site: Site) -> None:
    served = site.ask("GET", "/api/openapi.json", token=site.token).require_json()["paths"]
    assert served.keys() == document()["paths"].keys()
    assert len(ROUTES) > 25


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_without_its_token_nothing_answers(site: Site, method: str, path: str) -> None:
    for token in (None, "wrong", "", f"{site.token}x"):
        answer = site.ask(method, site.path(path), {}, token=token)
        assert answer.status == 401, token
        answer.require_error()
    assert site.ask(method, site.path(path), {}, Cookie=f"gearshift_{site.server.port}=wrong").status == 401


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_another_host_or_site_gets_nothing(site: Site, method: str, path: str) -> None:
    for foreign in (
        {"Host": "evil.example"},
        {"Host": f"evil.example:{site.server.port}"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://localhost:{site.server.port + 1}"},
    ):
        answer = site.ask(method, site.path(path), {}, token=site.token, **foreign)
        assert answer.status == 403, foreign
        answer.require_error()


@pytest.mark.parametrize(("method", "path"), WRITING)
def test_a_page_of_a_read_only_console_changes_nothing(site: Site, method: str, path: str) -> None:
    answer = site.ask(method, site.path(path), {}, token=site.server.access.page_token)
    assert (answer.status == 403) == (path not in READING_POSTS), answer
    answer.require_error()


@pytest.mark.parametrize("path", sorted(document()["paths"]))
def test_a_method_that_a_route_lacks_is_refused(site: Site, path: str) -> None:
    known = {method for method, each in ROUTES if each == path}
    for method in {"GET", *WRITES, "OPTIONS"} - known:
        if path.startswith(("/api/schemas/{", "/api/groups/{")) and method == "GET":
            continue  # a group's name may end like another route
        answer = site.ask(method, site.path(path), {}, token=site.token)
        if method == "GET":  # every other address is a page
            assert answer.status == 404, (method, answer)
        else:
            assert answer.status == 405, (method, answer)
        answer.require_error()


# Text of others


@pytest.mark.parametrize(("method", "path"), [route for route in GENERATED if route[1] not in OPEN])
def test_a_script_comes_back_only_as_json(site: Site, method: str, path: str) -> None:
    hostile = dict.fromkeys(site.names, SCRIPT)
    text = dict.fromkeys(("text", "query", "gear", "hold", "to", "topic", "start", "key", "value"), SCRIPT)
    body = {**text, "only": [f"reason={SCRIPT}"], "headers": {SCRIPT: SCRIPT}} if method == "POST" else None
    asked = "&".join(
        f"{name}={quote(SCRIPT)}" for name in ("from", "key", "field", "equals", "only", "limit")
    )
    for names in (hostile, site.names):
        for query in ("", f"?{asked}"):
            answer = site.ask(method, filled(path, names) + query, body, token=site.token)
            assert answer.status < 500, answer
            if answer.headers["content-type"] != "application/x-ndjson":
                answer.require_json()
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "script-src" not in answer.headers["content-security-policy"]


@pytest.mark.parametrize("path", sorted(STREAMS - {"/api/events"}))
def test_a_script_as_the_name_of_a_stream_is_an_error_in_json(site: Site, path: str) -> None:
    answer = site.ask("GET", filled(path, dict.fromkeys(site.names, SCRIPT)), token=site.token)
    assert 400 <= answer.status < 500
    answer.require_error()


# Requests that nobody thought of


CHECKED = [content_type_conformance, response_schema_conformance, status_code_conformance]


@pytest.fixture(scope="module")
def api(site: Site) -> Any:
    served = site.ask("GET", "/api/openapi.json", token=site.token).require_json()
    return schemathesis.openapi.from_dict(served)


@pytest.mark.parametrize(("method", "path"), GENERATED)
def test_no_request_is_an_internal_error(site: Site, api: Any, method: str, path: str) -> None:
    operation = api[path][method]
    names = {each.name: site.names[each.name] for each in operation.path_parameters}
    requests = [operation.as_strategy(mode) for mode in GenerationMode]
    if names:  # those that do not exist lead to 404 alone
        requests += [operation.as_strategy(mode, path_parameters=names) for mode in 2 * [*GenerationMode]]

    @seed(16)
    @settings(
        max_examples=4 if path in NEW_PROCESS else 30,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=st.one_of(requests))
    def holds(case: Any) -> None:
        response = case.call(
            base_url=site.server.url, headers={"Authorization": f"Bearer {site.token}"}, timeout=60
        )
        # 503, which the document has, says that a service of the busy machine does not answer now.
        assert response.status_code < 500 or response.status_code == 503, response.text
        case.validate_response(response, checks=CHECKED)
        if response.headers["content-type"] == "application/json":
            response.json()

    holds()
