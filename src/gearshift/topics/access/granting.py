"""Grants an app's rules on a Kafka that this project administers, as the secured local one is."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from confluent_kafka.admin import (
    AclBinding,  # pyright: ignore[reportPrivateImportUsage]
    AclBindingFilter,  # pyright: ignore[reportPrivateImportUsage]
    AclOperation,  # pyright: ignore[reportPrivateImportUsage]
    AclPermissionType,  # pyright: ignore[reportPrivateImportUsage]
    ResourcePatternType,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from gearshift.topics.access.rules import CONFIGS, CREATE, DESCRIBE, READ, WRITE, Rule
from gearshift.topics.admin_requests import AdminRequests, wait_until_empty

if TYPE_CHECKING:
    from gearshift.connection import Connection

_OPERATIONS = {
    CREATE: AclOperation.CREATE,
    READ: AclOperation.READ,
    WRITE: AclOperation.WRITE,
    DESCRIBE: AclOperation.DESCRIBE,
    CONFIGS: AclOperation.DESCRIBE_CONFIGS,
}
_RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.BROKER,
}
_ANSWER_WITHIN = timedelta(seconds=30)


def grant(superuser: Connection, principal: str, rules: Iterable[Rule]) -> None:
    """Add these rules; one that exists already is left as it is."""
    bindings = [
        AclBinding(
            _RESOURCES[rule.resource],
            rule.name,
            ResourcePatternType.PREFIXED if rule.prefixed else ResourcePatternType.LITERAL,
            principal,
            "*",
            _OPERATIONS[operation],
            AclPermissionType.ALLOW,
        )
        for rule in rules
        for operation in rule.operations
    ]
    if not bindings:
        return
    requests = AdminRequests(superuser, answer_within=_ANSWER_WITHIN)
    try:
        futures = requests.call(
            lambda: requests.admin.create_acls(bindings, request_timeout=requests.seconds)
        )
        for future in futures.values():
            requests.result(future)
        # The controller answers before the brokers have the rules.
        every = AclBindingFilter(
            ResourceType.ANY,
            None,  # pyright: ignore[reportArgumentType]
            ResourcePatternType.ANY,
            principal,
            None,  # pyright: ignore[reportArgumentType]
            AclOperation.ANY,
            AclPermissionType.ANY,
        )

        def missing() -> list[AclBinding]:
            answer = requests.call(
                lambda: requests.admin.describe_acls(every, request_timeout=requests.seconds)
            )
            return list(set(bindings) - set(requests.result(answer)))

        wait_until_empty(missing, _ANSWER_WITHIN)
    finally:
        requests.close()
