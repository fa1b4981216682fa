"""Rules for consumer group ids."""

from __future__ import annotations

from gearshift.definitions import Graph, Location
from gearshift.rules.declared import invalid


def require_own_group(graph: Graph, group_id: str, owner: str, where: Location) -> None:
    """Require a group id that no other reader uses: two readers in one group would split the records."""
    for pipeline in graph.pipelines.values():
        if group_id == f"{graph.app}.{pipeline.name}":
            raise invalid(
                f"{owner} has the group id {group_id} of pipeline {pipeline.name}",
                f"use another group_id; the pipeline is at {pipeline.defined_at}",
                where,
            )
    for delivery in graph.deliveries.values():
        if group_id == delivery.group_id:
            raise invalid(
                f"{owner} has the group id {group_id} of delivery {delivery.name}",
                f"use another group_id; the delivery is at {delivery.defined_at}",
                where,
            )
