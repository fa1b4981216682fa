"""`gearshift topic describe`: partitions, settings, schemas and readers of a topic."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gearshift.cli.output import Output, OutputOption, print_json, read_settings, say
from gearshift.cli.topic.consume import TopicArgument

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.topics.description import TopicDescription


def describe(topic: TopicArgument, output: OutputOption = Output.TEXT) -> None:
    """Show a topic: partitions, offsets, replicas, settings, schema versions, and who reads it with which lag."""
    from gearshift.stack import connect
    from gearshift.topics.description import describe as ask

    connection = connect(read_settings())
    found = _as_data(ask(connection, topic))
    found["schemas"], found["schemas_error"] = _schemas(connection, topic)
    if output is Output.JSON:
        print_json(found)
    else:
        _show(found)
    if found["schemas_error"] is not None:
        say(f"schemas are not available: {found['schemas_error']}")


def _as_data(found: TopicDescription) -> dict[str, Any]:
    return {
        "topic": found.name,
        "id": found.id,
        "records": found.records,
        "partitions": [
            {
                "partition": each.number,
                "leader": each.leader,
                "replicas": list(each.replicas),
                "in_sync_replicas": list(each.in_sync),
                "first_offset": each.begin,
                "end_offset": each.end,
                "records": each.records,
            }
            for each in found.partitions
        ],
        "settings": None
        if found.settings is None
        else {each.name: {"value": each.value, "set_on_topic": each.is_own} for each in found.settings},
        "groups": [
            {
                "group": each.group_id,
                "state": each.state,
                "members": each.members,
                "lag": each.lag,
                "partitions": [{"partition": number, "lag": lag} for number, lag in each.partitions.items()],
            }
            for each in found.groups
        ],
    }


def _schemas(connection: Connection, topic: str) -> tuple[list[dict[str, Any]], str | None]:
    """The versions of the topic's subjects; without a registry, the reason, since the rest is still useful."""
    from gearshift.errors import GearshiftError
    from gearshift.schemas.registry_client import Registry

    found: list[dict[str, Any]] = []
    try:
        with Registry(connection) as registry:
            for subject in (f"{topic}-value", f"{topic}-key"):
                versions = [
                    {
                        "version": number,
                        "id": schema.id,
                        "format": schema.format,
                        "schema": json.loads(schema.text),
                    }
                    for number, schema in registry.numbered(subject).items()
                ]
                if versions:
                    found.append({"subject": subject, "versions": versions})
    except (GearshiftError, ValueError) as error:
        return found, getattr(error, "what", None) or str(error)
    return found, None


def _show(found: dict[str, Any]) -> None:
    from gearshift.cli.listing import number, plain, table, wide_console
    from gearshift.schemas.fields import fields

    console = wide_console()
    count = len(found["partitions"])
    console.print(
        f"[bold]{plain(found['topic'])}[/]  {count} partition{'s' if count > 1 else ''}, "
        f"{found['records']:,} records"
    )
    rows = table(
        right=("partition", "leader", "replicas", "in sync", "first offset", "end offset", "records")
    )
    for each in found["partitions"]:
        lacking = len(each["in_sync_replicas"]) < len(each["replicas"]) or each["leader"] is None
        rows.add_row(
            str(each["partition"]),
            "none" if each["leader"] is None else str(each["leader"]),
            _list(each["replicas"]),
            _list(each["in_sync_replicas"]),
            number(each["first_offset"]),
            number(each["end_offset"]),
            number(each["records"]),
            style="red" if lacking else None,
        )
    console.print(rows)
    console.print()
    if found["settings"] is None:
        console.print("settings: not authorized to read them")
    else:
        rows = table("setting", "value", "")
        for name, each in found["settings"].items():
            readable = _readable(name, each["value"])
            rows.add_row(plain(name), plain(readable), "" if each["set_on_topic"] else "default")
        console.print(rows)
    for subject in found["schemas"]:
        console.print()
        versions = ", ".join(f"{each['version']} (id {each['id']})" for each in subject["versions"])
        last = subject["versions"][-1]
        console.print(
            f"[bold]{plain(subject['subject'])}[/]  {last['format']}, versions {versions}", soft_wrap=True
        )
        rows = table("field", "type", "")
        for field in fields(last["format"], last["schema"]):
            rows.add_row(plain(field.name), plain(field.type), plain(field.note))
        console.print(rows)
    if found["groups"]:
        console.print()
        rows = table("group", "state", right=("members", "lag"))
        for each in found["groups"]:
            rows.add_row(
                plain(each["group"]), plain(each["state"]), str(each["members"]), number(each["lag"])
            )
        console.print(rows)


def _list(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))


def _readable(name: str, value: str | None) -> str:
    """A setting for people: durations in words behind the number.

    >>> _readable("retention.ms", "604800000"), _readable("retention.bytes", "-1")
    ('604800000 (7 days)', '-1 (no limit)')
    """
    if value is None:
        return "(hidden)"
    if not value.lstrip("-").isdecimal() or not name.endswith((".ms", ".bytes")):
        return value
    if value == "-1":
        return "-1 (no limit)"
    if name.endswith(".bytes"):
        return value
    milliseconds = int(value)
    for unit, size in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000)):
        if milliseconds and milliseconds % size == 0:
            count = milliseconds // size
            return f"{value} ({count:,} {unit}{'s' if count > 1 else ''})"
    return value
