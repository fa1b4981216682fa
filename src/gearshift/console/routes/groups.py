"""Consumer groups: members, lag, and resetting offsets."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, StringConstraints

from gearshift.console.console import Console, Here
from gearshift.console.inputs import NamePath, TopicText
from gearshift.console.problems import Refusal
from gearshift.errors import DeliveryError, LedgerError, TopicError, TopicMissingError
from gearshift.pipelines.ledger.listing import require_no_mirror
from gearshift.topics.groups.tools import Group, Groups, PartitionLag

router = APIRouter(tags=["groups"])


class ResetRequest(BaseModel):
    """The offsets to set."""

    topic: TopicText
    to: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """earliest, latest, an offset, or a time with a UTC offset."""
    dry_run: bool = False


@router.get("/api/groups")
def groups(console: Here) -> list[dict[str, Any]]:
    """All groups, with the total of their lag."""
    with Groups(console.connection) as tools:
        found = tools.describe()
        lags: dict[str, list[PartitionLag]] = {group.group_id: [] for group in found}
        for each in tools.lag_of(found):
            lags[each.group_id].append(each)
    deliveries, pipelines = _owners(console)
    return [
        {
            "group_id": group.group_id,
            "state": group.state,
            "kind": group.kind,
            "members": len(group.members),
            "lag": _total(lags[group.group_id]),
            "topics": sorted({each.topic for each in lags[group.group_id]}),
            "delivery": deliveries.get(group.group_id),
            "pipeline": pipelines.get(group.group_id),
        }
        for group in found
    ]


@router.get("/api/groups/{group:path}")
def group(group: NamePath, console: Here) -> dict[str, Any]:
    """A group: its members, and its lag on every partition."""
    with Groups(console.connection) as tools:
        found = _require(tools, group)
        lags = tools.lag_of([found])
    return {
        "group_id": found.group_id,
        "state": found.state,
        "kind": found.kind,
        "members": [
            {
                "client_id": each.client_id,
                "host": each.host,
                "partitions": [list(place) for place in each.partitions],
            }
            for each in found.members
        ],
        "lag": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "committed": each.committed,
                "end": each.end,
                "lag": each.lag,
                "member": each.member,
            }
            for each in lags
        ],
    }


@router.post("/api/groups/{group:path}/reset")
def reset(group: NamePath, wanted: ResetRequest, console: Here) -> dict[str, Any]:
    """Set the offsets of a group without members, or with dry_run only show them."""
    with Groups(console.connection) as tools:
        _require(tools, group)
        _require_no_pipeline(group, console)
        moves = tools.plan_reset(group, wanted.topic, wanted.to)
        tools.require_no_members(group)
        if not wanted.dry_run:
            try:
                tools.reset(group, moves)
            except TopicMissingError:
                raise
            except TopicError as error:  # a member has joined in the meantime
                raise Refusal(409, error) from None
    return {
        "moves": [
            {
                "topic": move.topic,
                "partition": move.partition,
                "before": move.before,
                "after": move.after,
            }
            for move in moves
        ],
        "done": not wanted.dry_run,
    }


def _require(tools: Groups, group: str) -> Group:
    try:
        return tools.find(group)
    except DeliveryError as error:
        raise Refusal(404, error) from None


def _require_no_pipeline(group: str, console: Console) -> None:
    try:
        require_no_mirror(group, console.settings.checkpoints_uri)
    except LedgerError as error:
        raise Refusal(409, error) from None


def _owners(console: Console) -> tuple[dict[str, str], dict[str, str]]:
    """The deliveries and the pipelines of the running app, by group."""
    if console.running is None:
        return {}, {}
    graph = console.running.app.graph
    return (
        {delivery.group_id: delivery.name for delivery in graph.deliveries.values()},
        {f"{graph.app}.{name}": name for name in graph.pipelines},
    )


def _total(lags: list[PartitionLag]) -> int | None:
    known = [each.lag for each in lags if each.lag is not None]
    return sum(known) if known else None
