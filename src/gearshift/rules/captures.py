"""Rules for change captures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from gearshift.definitions import ChangeCapture, DatabaseKind, Graph, Location, Topic
from gearshift.rules.declared import LONGEST_TOPIC, invalid, require_name, require_new
from gearshift.rules.topics import is_dataclass_type


def captured_topics(
    name: str, tables: Mapping[str, type[Any]], partitions: int, before: bool, where: Location
) -> dict[str, Topic]:
    """The topic of each captured table."""
    if not isinstance(tables, Mapping) or not tables:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise invalid(f"change capture {name} has no tables", "set tables={'public.orders': Order}", where)
    if partitions < 1:
        raise invalid(
            f"change capture {name} needs at least one partition", "set partitions=1 or more", where
        )
    for table, row in tables.items():
        if not re.fullmatch(r"[A-Za-z0-9_]+\.[A-Za-z0-9_]+", table):
            raise invalid(
                f"change capture {name}: {table!r} is not a qualified table name",
                "write schema.table, such as public.orders",
                where,
            )
        if not is_dataclass_type(row):
            raise invalid(
                f"change capture {name}: the row type of {table} is not a dataclass",
                "declare it with @dataclass",
                where,
            )
    return {
        table: Topic(
            name=f"{name}.{table}",
            value=row,
            partitions=partitions,
            format="json",
            compatibility="NONE",
            envelope="debezium",
            before=before,
            defined_at=where,
        )
        for table, row in tables.items()
    }


def check_capture(capture: ChangeCapture, graph: Graph) -> None:
    """Require a new name, a known kind of database and a password that is only referred to."""
    name, where = capture.name, capture.defined_at
    require_name(name, "change capture", where)
    require_new(name, "change capture", graph.captures, where)
    for topic in capture.topics.values():
        require_name(topic.name, "topic", where, limit=LONGEST_TOPIC)
        require_new(topic.name, "topic", graph.topics, where)
    if capture.password is not None and not re.fullmatch(r"\$\{[^{}:]+:[^{}]+\}", capture.password):
        # The value is not shown, since it may be the password.
        raise invalid(
            f"the password of change capture {name} is not a reference",
            "name where Kafka Connect finds it, such as ${env:ORDERS_DB_PASSWORD}; put passwords in the settings",
            where,
        )
    if capture.database not in (kinds := get_args(DatabaseKind)):
        raise invalid(
            f"change capture {name}: unknown database {capture.database!r}",
            f"use one of {', '.join(kinds)}",
            where,
        )
