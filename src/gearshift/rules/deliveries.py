"""What a delivery may say."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from gearshift.definitions import Location, Retry, Topic
from gearshift.rules.declared import duration, wrong


def check_handler(name: str, handler: Callable[..., Any], batch: int | None, where: Location) -> None:
    """Refuse a handler that could not be called with a record, or with a list of them."""
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
        raise wrong(
            f"the handler of delivery {name} takes {', '.join(each.name for each in parameters) or 'nothing'}",
            "give it one parameter: the record, or with batch= the list of records",
            where,
        )
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise wrong(f"the handler of delivery {name} is a generator", "return a list instead", where)
    hint = str(positional[0].annotation) if positional[0].annotation is not positional[0].empty else ""
    takes_list = hint.replace("typing.", "").startswith(("list", "Sequence", "collections.abc.Sequence"))
    if takes_list and batch is None:
        raise wrong(f"the handler of delivery {name} takes a list", "say batch=100", where)
    if hint and "Record" in hint and not takes_list and batch is not None:
        raise wrong(
            f"the handler of delivery {name} takes one record, and batch={batch} gives it a list",
            "annotate it list[gs.Record[…]], or leave out batch",
            where,
        )


def check_once(name: str, topic: Topic, once_by: tuple[str, ...], where: Location) -> None:
    """Refuse fields that do not tell whether a record was delivered."""
    if once_by and topic.envelope is not None:
        raise wrong(
            f"delivery {name} has once_by, and topic {topic.name} brings changes of rows",
            "leave it out: a destination with a key takes the later of two changes, whichever comes twice",
            where,
        )
    names = [field.name for field in fields(topic.value)]
    for field in once_by:
        if field not in names:
            raise wrong(
                f"delivery {name} has once_by={field!r}, and {topic.value.__name__} has no such field",
                f"it has {', '.join(names)}",
                where,
            )
    if once_by and topic.key not in once_by:
        # The same record twice must meet in one partition, or nobody sees that it is the same.
        raise wrong(
            f"delivery {name} has once_by without the key of topic {topic.name}",
            f"add {topic.key!r} to once_by" if topic.key else "give the topic a key that is part of once_by",
            where,
        )


def check_copy(name: str, topic: Topic, to: object, parallelism: int, where: Location) -> None:
    """Refuse a copy of a captured table that a truncate could find out of order.

    Debezium sends truncates without a key: only in a single partition, taken one by one, they come between the same
    changes as in the database.
    """
    if topic.envelope is None or not getattr(to, "key", ()) or (topic.partitions == 1 and parallelism == 1):
        return
    split = f"{topic.partitions} partitions" if topic.partitions > 1 else f"parallelism={parallelism}"
    raise wrong(
        f"delivery {name} copies changes of topic {topic.name} by key, with {split}: "
        "a truncate has no key, and would come before or after changes that it should not",
        "leave partitions and parallelism at 1, or keep the copy in an app.table, which goes by the place in the log",
        where,
    )


def check_numbers(
    name: str,
    topic: Topic,
    batch: int | None,
    parallelism: int,
    scale: tuple[int, int],
    where: Location,
) -> None:
    """Refuse numbers that mean nothing, and order where there is no key to keep it by."""
    if batch is not None and batch < 1:
        raise wrong(f"delivery {name} has batch={batch}", "use a number above 0", where)
    if parallelism < 1:
        raise wrong(f"delivery {name} has parallelism={parallelism}", "use a number above 0", where)
    if parallelism > 1 and topic.key is None and topic.envelope is None and batch is None:
        raise wrong(
            f"delivery {name} has parallelism={parallelism}, and topic {topic.name} has no key to keep order by",
            "give the topic a key, or use scale=",
            where,
        )
    if len(scale) != 2 or not 0 < scale[0] <= scale[1]:
        raise wrong(f"delivery {name} has scale={scale}", "use two numbers, such as (1, 4)", where)


def retry_of(name: str, retry: str | Retry, where: Location) -> Retry:
    """How long to try again, from a duration in words."""
    if isinstance(retry, Retry):
        return retry
    return Retry(within=duration(retry, f"delivery {name}: retry", where))
