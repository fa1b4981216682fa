"""Rules for deliveries."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_args

from gearshift.definitions import Commit, Delivery, Graph, Location, Retry, Start, Topic
from gearshift.record import Destination
from gearshift.rules.declared import duration, invalid, require_name, require_new
from gearshift.rules.groups import require_own_group


def check_delivery(delivery: Delivery, graph: Graph) -> None:
    """Require a handler that can be called, its own group id and options that fit the topic."""
    name, topic, target, where = delivery.name, delivery.topic, delivery.target, delivery.defined_at
    require_name(name, "delivery", where)
    require_new(name, "delivery", graph.deliveries, where)
    require_own_group(graph, delivery.group_id, f"delivery {name}", where)
    _check_handler(name, delivery.handler, delivery.batch_size, where)
    _check_once(name, topic, delivery.once_by, where)
    _check_numbers(delivery)
    if delivery.commit not in get_args(Commit):
        raise invalid(f"delivery {name} has commit={delivery.commit!r}", "use 'sync' or 'async'", where)
    if delivery.start not in get_args(Start):
        raise invalid(
            f"delivery {name} has start={delivery.start!r}", "use 'earliest', 'latest' or 'error'", where
        )
    if not (target is None or isinstance(target, Topic | Destination)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise invalid(f"delivery {name} writes to {target!r}", "pass a topic or a destination as to=", where)
    check_copy(name, topic, target, delivery.parallelism, where)
    if isinstance(target, Topic) and target.name == topic.name:
        raise invalid(f"delivery {name} writes to the topic it reads", "use another topic", where)


def require_topic(source: object, where: Location) -> None:
    """Require that a delivery reads a topic."""
    if not isinstance(source, Topic):
        raise invalid(
            f"a delivery reads {source!r}",
            "pass a topic declared with app.topic, or one of app.cdc(…).topics",
            where,
        )


def check_copy(name: str, topic: Topic, to: object, parallelism: int, where: Location) -> None:
    """Require one partition and one lane for a copy of a captured table.

    Debezium sends truncates without a key, so only records of a single partition, handled one by one, keep a
    truncate between the same changes as in the database.
    """
    if topic.envelope is None or not getattr(to, "key", ()) or (topic.partitions == 1 and parallelism == 1):
        return
    split = f"{topic.partitions} partitions" if topic.partitions > 1 else f"parallelism={parallelism}"
    raise invalid(
        f"delivery {name} copies changes of topic {topic.name} by key, with {split}: "
        "a truncate has no key, so it would be applied before or after the wrong changes",
        "leave partitions and parallelism at 1, or keep the copy in an app.table, which orders changes by position",
        where,
    )


def retry_of(name: str, retry: str | Retry, where: Location) -> Retry:
    """The retry policy; a text is its timeout."""
    return (
        retry
        if isinstance(retry, Retry)
        else Retry(timeout=duration(retry, f"delivery {name}: retry", where))
    )


def _check_handler(name: str, handler: Callable[..., Any], batch_size: int | None, where: Location) -> None:
    """Require a handler that can be called with a record, or with a list of records."""
    parameters = list(inspect.signature(handler).parameters.values())
    required = [
        each
        for each in parameters
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    positional = [
        each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    if len(required) > 1 or not positional or any(each.kind is each.KEYWORD_ONLY for each in required):
        raise invalid(
            f"the handler of delivery {name} takes {', '.join(each.name for each in parameters) or 'nothing'}",
            "give it one parameter: the record, or with batch_size= the list of records",
            where,
        )
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise invalid(f"the handler of delivery {name} is a generator", "return a list instead", where)
    hint = str(positional[0].annotation) if positional[0].annotation is not positional[0].empty else ""
    takes_list = hint.replace("typing.", "").startswith(("list", "Sequence", "collections.abc.Sequence"))
    if takes_list and batch_size is None:
        raise invalid(f"the handler of delivery {name} takes a list", "set batch_size=100", where)
    if hint and "Record" in hint and not takes_list and batch_size is not None:
        raise invalid(
            f"the handler of delivery {name} takes one record, but batch_size={batch_size} passes a list",
            "annotate it list[gs.Record[…]], or leave out batch_size",
            where,
        )


def _check_once(name: str, topic: Topic, once_by: tuple[str, ...], where: Location) -> None:
    """Require fields that identify a record within its partition."""
    if once_by and topic.envelope is not None:
        raise invalid(
            f"delivery {name} has once_by, but topic {topic.name} holds captured changes",
            "leave it out: a destination with a key keeps the latest change, even if one arrives twice",
            where,
        )
    names = [field.name for field in fields(topic.value)]
    for field in once_by:
        if field not in names:
            raise invalid(
                f"delivery {name} has once_by={field!r}, but {topic.value.__name__} has no such field",
                f"use fields of {', '.join(names)}",
                where,
            )
    if once_by and topic.key not in once_by:
        # Both copies of a record must be in one partition: each consumer knows only its own partitions.
        raise invalid(
            f"delivery {name} has once_by without the key of topic {topic.name}",
            f"add {topic.key!r} to once_by" if topic.key else "give the topic a key that is part of once_by",
            where,
        )


def _check_numbers(delivery: Delivery) -> None:
    """Require positive numbers, and a key where parallel handlers have to keep order."""
    name, topic, where = delivery.name, delivery.topic, delivery.defined_at
    size, parallelism, consumers = delivery.batch_size, delivery.parallelism, delivery.consumers
    if size is not None and size < 1:
        raise invalid(f"delivery {name} has batch_size={size}", "use a number above 0", where)
    if parallelism < 1:
        raise invalid(f"delivery {name} has parallelism={parallelism}", "use a number above 0", where)
    if parallelism > 1 and topic.key is None and topic.envelope is None and size is None:
        raise invalid(
            f"delivery {name} has parallelism={parallelism}, but topic {topic.name} has no key to keep order by",
            "give the topic a key, or use consumers=",
            where,
        )
    if len(consumers) != 2 or not 0 < consumers[0] <= consumers[1]:
        raise invalid(
            f"delivery {name} has consumers={consumers}", "use the least and the most, such as (1, 4)", where
        )
