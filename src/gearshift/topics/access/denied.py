"""The error for a rule that is missing: who may not do what, and the line that adds it. Pure."""

from __future__ import annotations

from gearshift.errors import NotAuthorizedError
from gearshift.topics.access.rules import CLUSTER, Resource, Rule

_IN_WORDS = {
    "Create": "create",
    "Read": "read",
    "Write": "write",
    "Delete": "delete",
    "Describe": "describe",
    "IdempotentWrite": "write to any topic of",
}


def not_authorized(
    principal: str, operation: str, resource: Resource, name: str | None = None
) -> NotAuthorizedError:
    """The error for an operation that the brokers refused.

    >>> print(not_authorized("User:me", "Read", "group", "meter.sms"))
    User:me is not authorized to read group meter.sms; add this rule with kafka-acls.sh (gearshift acls FILE prints every rule of an app): --add --allow-principal User:me --operation Read --group meter.sms
    """
    shown = CLUSTER if resource == "cluster" else name or "NAME"
    target = "the cluster" if resource == "cluster" else f"{resource.replace('-', ' ')} {shown}"
    line = Rule(resource, shown, (operation,)).line(principal)
    return NotAuthorizedError(
        f"{principal} is not authorized to {_IN_WORDS[operation]} {target}",
        hint=f"add this rule with kafka-acls.sh (gearshift acls FILE prints every rule of an app): {line}",
    )
