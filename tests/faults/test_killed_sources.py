"""`kill -9` of a source in the middle of its work: started again, it has lost nothing and repeats nothing."""

from __future__ import annotations

import http.client
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from threading import Event

import pytest

from gearshift.connection import Connection
from gearshift.settings import Settings
from gearshift.sources.simulator.source import sequence
from gearshift.topics import Admin
from tests.faults.processes import RunnerProcess, write_settings
from tests.faults.source_process import PORT_FILE, Declared, Order, declare
from tests.flow import values
from tests.support import eventually

FILES, ROWS = 5, 2_000
SENDERS, REQUESTS, RECORDS = 4, 40, 5


@pytest.fixture
def declared(connection: Connection, settings: Settings, unique: str, tmp_path: Path) -> Declared:
    write_settings(settings, tmp_path)
    declared = declare(unique, tmp_path)
    with Admin(connection) as admin:
        admin.ensure([declared.orders])
    return declared


def process(kind: str, declared: Declared, settings: Settings, folder: Path, *point: str) -> RunnerProcess:
    return RunnerProcess.of_module(
        settings, folder, "tests.faults.source_process", kind, declared.app.name, str(folder), *point
    )


def orders(connection: Connection, declared: Declared) -> Counter[int]:
    return Counter(order.order_id for order in values(connection, declared.orders))


def test_files_are_taken_once_whenever_their_source_is_killed(
    declared: Declared, connection: Connection, settings: Settings, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for each in range(FILES):
        rows = "".join(f"{number},Ghent\n" for number in range(each * ROWS, (each + 1) * ROWS))
        (folder / f"{each}.csv").write_text(f"order_id,city\n{rows}x,bad\n")
    for point in ("sent", "committed"):
        with process("files", declared, settings, tmp_path, point) as running:
            running.wait_killed()
        assert list(folder.glob("*.csv")), "it was not killed in the middle"
    with process("files", declared, settings, tmp_path) as running:
        eventually(lambda: not list(folder.glob("*.csv")))
        running.kill()
    assert orders(connection, declared) == Counter(range(FILES * ROWS))
    with Admin(connection) as admin:
        ends = admin.end_offsets([declared.orders.dead_letters])
    assert sum(ends.values()) >= FILES


def test_requests_with_a_key_are_written_once_whenever_their_port_is_killed(
    declared: Declared, connection: Connection, settings: Settings, tmp_path: Path
) -> None:
    done = Counter[int]()
    over = Event()

    def send(sender: int) -> None:
        for request in range(REQUESTS):
            number = sender * REQUESTS + request
            body = [{"order_id": number * RECORDS + each, "city": "Ghent"} for each in range(RECORDS)]
            eventually(lambda body=body, number=number: post(body, f"request-{number}"))
            done[sender] += 1

    def post(body: list[dict[str, object]], key: str) -> bool:
        assert not over.is_set()
        try:
            port = int((tmp_path / PORT_FILE).read_text())
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            try:
                headers = {"Content-Type": "application/json", "Idempotency-Key": key}
                client.request("POST", f"/topics/{declared.orders.name}", json.dumps(body), headers)
                answer = client.getresponse()
                answer.read()
                return answer.status == 200
            finally:
                client.close()
        except (OSError, http.client.HTTPException):
            return False

    with ThreadPoolExecutor(SENDERS) as pool:
        try:
            sending = [pool.submit(send, sender) for sender in range(SENDERS)]
            for goal in (REQUESTS, 2 * REQUESTS):
                with process("http", declared, settings, tmp_path) as running:
                    eventually(lambda goal=goal: done.total() > goal, every=0.001)
                    running.kill()
            with process("http", declared, settings, tmp_path):
                for each in sending:
                    each.result(120)
        finally:
            over.set()
    assert orders(connection, declared) == Counter(range(SENDERS * REQUESTS * RECORDS))


def test_the_sequence_of_a_seed_goes_on_where_it_was(
    declared: Declared, connection: Connection, settings: Settings, tmp_path: Path
) -> None:
    seen = 0
    for _ in range(2):
        with process("simulator", declared, settings, tmp_path) as running:
            eventually(lambda seen=seen: orders(connection, declared).total() > seen + 500)
            running.kill()
        seen = orders(connection, declared).total()
    with process("simulator", declared, settings, tmp_path, "committed") as running:
        running.wait_killed()
    found = values(connection, declared.orders)
    assert len(found) > seen
    wanted = islice(sequence(declared.app.graph.sources["simulated"]), len(found))
    assert Counter(map(_as_pair, found)) == Counter(map(_as_pair, wanted))


def _as_pair(order: Order) -> tuple[int, str]:
    return order.order_id, order.city
