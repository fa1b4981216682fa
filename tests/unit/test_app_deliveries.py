"""Declarations of deliveries, and the file and line of invalid ones."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

import gearshift as gs
from gearshift.errors import DefinitionError


@dataclass
class Alert:
    meter_id: str
    load_kw: float


app = gs.App("meter")
alerts = app.topic("alerts", value=Alert, key="meter_id", partitions=3)
unkeyed = app.topic("unkeyed", value=Alert)


@app.pipeline(source=alerts, to=unkeyed, freshness="1 minute")
def copy(alerts: Any) -> Any:
    return alerts


def send(alert: gs.Record[Alert]) -> None: ...


def send_all(alerts: list[gs.Record[Alert]]) -> None: ...


def two(alert: gs.Record[Alert], other: int) -> None: ...


def none() -> None: ...


def yields(alert: gs.Record[Alert]) -> Any:
    yield alert


@pytest.mark.parametrize(
    ("handler", "topic", "wrong", "words"),
    [
        (send, alerts, {"once_by": ("meter_id", "at")}, "Alert has no such field"),
        (send, alerts, {"once_by": "load_kw"}, "once_by without the key of topic alerts"),
        (send, unkeyed, {"once_by": "meter_id"}, "once_by without the key of topic unkeyed"),
        (send, unkeyed, {"parallelism": 4}, "has no key to keep order by"),
        (send, alerts, {"parallelism": 0}, "parallelism=0"),
        (send, alerts, {"consumers": (2, 1)}, "consumers=(2, 1)"),
        (send, alerts, {"batch_size": 10}, "takes one record, but batch_size=10 passes a list"),
        (send_all, alerts, {}, "takes a list"),
        (two, alerts, {}, "takes alert, other"),
        (none, alerts, {}, "takes nothing"),
        (yields, alerts, {}, "is a generator"),
        (send, alerts, {"group_id": "meter.copy"}, "of pipeline copy"),
        (send, alerts, {"commit": "now"}, "commit='now'"),
        (send, alerts, {"start": "middle"}, "start='middle'"),
        (send, alerts, {"retry": "soon"}, "retry:"),
        (send, alerts, {"to": alerts}, "writes to the topic it reads"),
        (send, alerts, {"to": "cassandra"}, "writes to 'cassandra'"),
    ],
)
def test_a_delivery_that_cannot_be_is_refused_with_its_line(
    handler: Any, topic: gs.Topic, wrong: dict[str, Any], words: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        app.delivery(topic, **{"group_id": "sender", **wrong})(handler)
    assert words in caught.value.what
    assert caught.value.hint
    assert caught.value.file is not None
    assert caught.value.file.endswith("test_app_deliveries.py")
    assert caught.value.line == inspect.getsourcelines(handler)[1]


def test_a_pipeline_cannot_take_the_group_of_a_delivery_either() -> None:
    own = gs.App("own")
    topic = own.topic("alerts", value=Alert, key="meter_id")
    own.delivery(topic, group_id="own.copy")(send)
    with pytest.raises(DefinitionError, match="of delivery send"):
        own.pipeline(source=topic, to=own.table("kept"), freshness="1 minute")(copy)


def test_a_delivery_is_what_it_says_and_the_handler_stays_a_plain_function() -> None:
    own = gs.App("own")
    topic = own.topic("alerts", value=Alert, key="meter_id")

    @own.delivery(topic, once_by="meter_id", retry="30 seconds", consumers=(1, 4))
    async def notify(alert: gs.Record[Alert]) -> str:
        return alert.value.meter_id

    found = own.graph.deliveries["notify"]
    assert (found.group_id, found.once_by, found.is_async) == ("own.notify", ("meter_id",), True)
    assert found.retry.timeout == timedelta(seconds=30)
    assert inspect.iscoroutinefunction(notify)


def test_a_record_keeps_its_idempotency_key_when_it_comes_again_elsewhere() -> None:
    def record(offset: int, identity: bytes | None) -> gs.Record[int]:
        return gs.Record(1, b"k", "alerts", 0, offset, None, (), identity)

    assert record(5, b"a").idempotency_key == record(9, b"a").idempotency_key
    assert record(5, None).idempotency_key != record(9, None).idempotency_key
    mine, theirs = (
        gs.Record(1, None, "alerts", 0, 5, None, (), b"a", scope=f"{group}/notify")
        for group in ("mine", "theirs")
    )
    assert mine.idempotency_key != theirs.idempotency_key
    old, new = (gs.Record(1, None, "alerts", 0, 5, None, topic_id=topic) for topic in ("old", "new"))
    assert old.idempotency_key != new.idempotency_key, "the topic was deleted and created again"
    several = [gs.Row("x", record(5, b"a"), index).idempotency_key for index in range(3)]
    assert len(set(several)) == 3
    assert several[0] == record(5, b"a").idempotency_key
