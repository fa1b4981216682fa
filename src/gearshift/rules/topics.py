"""Rules for topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass

from gearshift.definitions import TABLE_SUFFIX, Topic
from gearshift.rules.declared import LONGEST_TOPIC, invalid, require_name, require_new

_COMPATIBILITY = tuple(
    f"{direction}{reach}" for direction in ("BACKWARD", "FORWARD", "FULL") for reach in ("", "_TRANSITIVE")
)


def check_topic(topic: Topic, known: Mapping[str, Topic]) -> None:
    """Require a topic that can be created, encoded and decoded."""
    name, where = topic.name, topic.defined_at
    require_name(name, "topic", where, limit=LONGEST_TOPIC)
    if name.endswith(TABLE_SUFFIX):
        raise invalid(
            f"topic {name} would share its dead-letter topic with a table",
            f"use a name that does not end in {TABLE_SUFFIX}",
            where,
        )
    require_new(name, "topic", known, where)
    if not is_dataclass_type(topic.value):
        raise invalid(f"the value of topic {name} is not a dataclass", "declare it with @dataclass", where)
    names = [field.name for field in fields(topic.value)]
    if topic.key is not None and topic.key not in names:
        raise invalid(
            f"topic {name}: {topic.value.__name__} has no field {topic.key!r} to use as the key",
            f"use one of {', '.join(names)}",
            where,
        )
    if topic.partitions < 1:
        raise invalid(f"topic {name} needs at least one partition", "set partitions=1 or more", where)
    if topic.replicas is not None and topic.replicas < 1:
        raise invalid(f"topic {name} needs at least one replica", "set replicas=1 or more", where)
    if topic.format not in ("avro", "json"):
        raise invalid(f"topic {name}: unknown format {topic.format!r}", "use 'avro' or 'json'", where)
    if topic.compatibility not in (*_COMPATIBILITY, "NONE"):
        raise invalid(
            f"topic {name}: unknown compatibility {topic.compatibility!r}",
            f"use {', '.join(_COMPATIBILITY)} or NONE",
            where,
        )
    if topic.envelope not in (None, "debezium"):
        raise invalid(f"topic {name}: unknown envelope {topic.envelope!r}", "use 'debezium'", where)
    if topic.max_lag is not None and topic.max_lag < 1:
        raise invalid(f"topic {name} has max_lag={topic.max_lag}", "use a number of records above 0", where)


def check_external(topic: Topic, compatibility: str | None) -> None:
    """Require that an external topic does not set what its owner decides."""
    if topic.external and (compatibility or topic.replicas is not None or topic.envelope):
        raise invalid(
            f"topic {topic.name} is external: its owner sets compatibility, replicas and envelope",
            "leave out compatibility, replicas and envelope",
            topic.defined_at,
        )


def is_dataclass_type(value: object) -> bool:
    """Whether a value is a dataclass, and not an instance of one."""
    return is_dataclass(value) and isinstance(value, type)
