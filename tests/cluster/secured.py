"""A secured Kafka for tests: its superuser takes rules away and gives them back."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBindingFilter,  # pyright: ignore[reportPrivateImportUsage]
    AclOperation,  # pyright: ignore[reportPrivateImportUsage]
    AclPermissionType,  # pyright: ignore[reportPrivateImportUsage]
    AdminClient,
    ResourcePatternType,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from gearshift.connection import Connection
from gearshift.topics.access.granting import grant
from gearshift.topics.access.rules import Rule
from tests.command import GEARSHIFT
from tests.support import cluster, eventually, librdkafka

PRINCIPAL = "User:gearshift"


class Rules:
    """The rules of the apps' principal."""

    def __init__(self, superuser: Connection) -> None:
        self._superuser = superuser
        self._admin: Any = AdminClient(librdkafka(superuser))

    def grant(self, rules: Sequence[Rule]) -> None:
        """Add rules."""
        grant(self._superuser, PRINCIPAL, rules)

    def present(self) -> list[Any]:
        """Every rule there is."""
        return list(self._admin.describe_acls(_filter(None, None)).result())

    def revoke(self, resource: str | None = None, name: str | None = None) -> None:
        """Remove the rules of one resource, or all of them."""
        wanted = _filter(resource, name)
        for future in self._admin.delete_acls([wanted]).values():
            future.result()
        eventually(lambda: not self._admin.describe_acls(wanted).result(), within=30)

    @contextmanager
    def without(self, rules: Sequence[Rule], resource: str, name: str) -> Generator[None]:
        """All rules but those of one resource."""
        self.revoke()
        kept = [rule for rule in rules if (rule.resource, rule.name) != (resource, name)]
        assert len(kept) == len(rules) - 1
        self.grant(kept)
        yield


def _filter(resource: str | None, name: str | None) -> AclBindingFilter:
    kind = ResourceType.ANY if resource is None else ResourceType[resource.replace("-", "_").upper()]
    found: Any = AclBindingFilter  # its arguments may be None, which its types do not say
    return found(kind, name, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)


def refusal(folder: Path, connection: Connection, *words: str) -> tuple[str, float]:
    """What a command prints that these properties do not let in, and how long it takes."""
    folder.mkdir()
    entries = cluster(connection)
    lines = [f'{name} = "{entries[name]}"\n' for name in ("bootstrap_servers", "registry_url")]
    lines += [
        f'{table}."{name}" = {json.dumps(value)}\n'
        for table in ("kafka", "registry")
        for name, value in entries[table].items()
    ]
    (folder / "gearshift.toml").write_text("".join(lines), encoding="utf-8")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GEARSHIFT_")}
    began = time.monotonic()
    done = subprocess.run(
        [GEARSHIFT, *words], cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    took = time.monotonic() - began
    assert done.returncode == 2, done.stdout + done.stderr
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["error", "hint"]
    return done.stderr, took
