"""A record that nobody survives: after a few deaths it is set aside, and the rest of its partition goes on."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from gearshift.connection import Connection
from gearshift.runner.deliveries.consumer_group import ConsumerGroup
from gearshift.runner.loading import load_app
from gearshift.schemas import Registry
from gearshift.settings import Settings
from gearshift.topics import Admin, Producer, read
from tests.support import eventually


def test_a_record_that_kills_its_process_each_time_becomes_a_dead_letter(
    connection: Connection, settings: Settings, tmp_path: Path, unique: str
) -> None:
    handled = tmp_path / "handled"
    file = tmp_path / "killing.py"
    file.write_text(
        dedent(f"""
        import ctypes
        from dataclasses import dataclass

        import gearshift as gs

        @dataclass
        class Number:
            key: str
            n: int

        app = gs.App("{unique}")
        numbers = app.topic("{unique}", value=Number, key="key", partitions=1)

        @app.delivery(numbers, parallelism=4)
        def handle(record: gs.Record[Number]) -> None:
            if record.value.n == 50:
                print(50, flush=True)  # on an output that the runner listens to
                ctypes.string_at(0)  # a segmentation fault
            with open({str(handled)!r}, "a") as lines:
                lines.write(f"{{record.value.n}}\\n")
        """)
    )
    app = load_app(file)
    topic, delivery = app.graph.topics[unique], app.graph.deliveries["handle"]
    with Admin(connection) as admin, Registry(connection) as registry:
        admin.ensure([topic])
        registry.register(topic)
    with Producer(connection) as producer:
        for n in range(100):
            producer.send(topic, topic.value(f"k{n % 5}", n))
    group = ConsumerGroup(delivery, app.name, connection, settings, name=unique, file=file)
    group.open()
    try:
        expected = {n for n in range(100) if n != 50}
        eventually(lambda: handled.exists() and set(map(int, handled.read_text().split())) == expected)
        letters = eventually(lambda: list(read(connection, topic.dead_letters)))
        deaths = group.status()["restarts"]
    finally:
        group.close()
    assert len(letters) == 1
    said = [line for log in settings.home.glob("logs/*") for line in log.read_text().splitlines()]
    assert said.count("50") == 4, "what a handler prints is in the log"
    assert letters[0].key == b"k0"
    assert letters[0].header("__connect.errors.offset") == b"50"
    assert letters[0].header("__connect.errors.exception.class.name") == b"gearshift.errors.ProcessDiedError"
    assert b"the process crashed 3 times" in (letters[0].header("__connect.errors.exception.message") or b"")
    assert deaths == 4, "the first death told nobody which record it was"
