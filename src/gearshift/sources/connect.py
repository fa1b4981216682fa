"""Kafka Connect's REST API: put a connector, ask how it is, restart what failed, delete it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast
from urllib.parse import quote, unquote, urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from gearshift.errors import ConnectError, ConnectUnreachableError, SettingsError
from gearshift.sources.connect_failures import NO_ENTRY, explain

_REBALANCING = 409
_MISSING = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task of a connector; `cause` is why it failed, in one sentence."""

    number: int
    state: str
    cause: ConnectError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorStatus:
    """How a connector is, in Connect's own words: RUNNING, PAUSED, UNASSIGNED, RESTARTING, FAILED."""

    state: str
    tasks: tuple[Task, ...]
    cause: ConnectError | None = None

    @property
    def running(self) -> bool:
        """Whether it and each of its tasks run."""
        return (
            self.state == "RUNNING"
            and bool(self.tasks)
            and all(task.state == "RUNNING" for task in self.tasks)
        )

    @property
    def failure(self) -> ConnectError | None:
        """Why it, or the first task that failed, stands still."""
        return self.cause or next((task.cause for task in self.tasks if task.cause is not None), None)


class Connect:
    """A client of one Connect; the user and password in its address are in no error."""

    def __init__(self, url: str, *, timeout: timedelta = timedelta(seconds=30)) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise SettingsError(f"connect_url is not a URL: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError(
                "connect_url is not an http or https address", hint="as in http://127.0.0.1:8083"
            )
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self.address = f"{parts.scheme}://{host}" + (f":{port}" if port else "")
        self._path = parts.path.rstrip("/")
        self._timeout = timeout
        user = None
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        self._headers = urllib3.make_headers(basic_auth=user) | {"Accept": "application/json"}
        self._pool = urllib3.connection_from_url(
            self.address, maxsize=2, timeout=timeout.total_seconds(), retries=False
        )

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Create the connector, or update it; Connect has checked the configuration when this returns."""
        try:
            self._ask("PUT", name, "/config", body=config)
        except ConnectError as error:
            # Connect 4.3 trips over Debezium's report of a database that it cannot enter; asked apart, it tells.
            if "ConfigValueInfo" not in error.what:
                raise
            raise explain(name, self._objections(config) or NO_ENTRY) from None

    def config(self, name: str) -> dict[str, str] | None:
        """The connector's configuration as it was put, with references in the place of secrets; None if it is not there."""
        found = self._ask("GET", name, "/config", missing=True)
        return None if found is None else {str(key): str(value) for key, value in found.items()}

    def status(self, name: str) -> ConnectorStatus | None:
        """How the connector is; None if there is none of this name."""
        found = self._ask("GET", name, "/status", missing=True)
        if found is None:
            return None
        connector = cast("dict[str, Any]", found["connector"])
        return ConnectorStatus(
            state=str(connector["state"]),
            cause=_cause(name, connector),
            tasks=tuple(
                Task(number=int(task["id"]), state=str(task["state"]), cause=_cause(name, task))
                for task in cast("list[dict[str, Any]]", found["tasks"])
            ),
        )

    def restart_failed(self, name: str) -> None:
        """Start what has failed of the connector again, and nothing that runs."""
        self._ask("POST", name, "/restart?includeTasks=true&onlyFailed=true")

    def delete(self, name: str) -> None:
        """Take the connector away; its place in the database's log stays, as Connect's offsets and the slot."""
        self._ask("DELETE", name, "", missing=True)

    def close(self) -> None:
        """Let go of the connections."""
        self._pool.close()

    def _objections(self, config: Mapping[str, str]) -> str:
        kind = config["connector.class"].rpartition(".")[2]
        try:
            found = self._ask("PUT", kind, "/config/validate", body=config, under="connector-plugins")
        except ConnectUnreachableError:
            raise
        except ConnectError:
            return ""
        entries = cast("list[dict[str, Any]]", (found or {}).get("configs", []))
        values = [cast("dict[str, Any]", entry["value"]) for entry in entries if entry.get("value")]
        return "\n".join(str(error) for value in values for error in value.get("errors", []))

    def _ask(
        self,
        method: str,
        name: str,
        rest: str,
        *,
        body: Mapping[str, str] | None = None,
        missing: bool = False,
        under: str = "connectors",
    ) -> dict[str, Any] | None:
        deadline = time.monotonic() + self._timeout.total_seconds()
        headers = self._headers | ({} if body is None else {"Content-Type": "application/json"})
        while True:
            try:
                answer = self._pool.urlopen(
                    method,
                    f"{self._path}/{under}/{quote(name, safe='')}{rest}",
                    body=None if body is None else json.dumps(body).encode(),
                    headers=headers,
                    redirect=False,
                    retries=False,
                )
            except (HTTPError, OSError) as error:
                raise ConnectUnreachableError(
                    f"no Kafka Connect answers at {self.address}: {type(error).__name__}",
                    hint='start it with "gearshift up --with connect", or mend connect_url',
                ) from None
            # While its workers agree on who does what, Connect asks to come back; that takes a second or two.
            if answer.status != _REBALANCING or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        if missing and answer.status == _MISSING:
            return None
        if not 200 <= answer.status < 300:
            raise self._refused(name, answer.status, answer.data)
        try:
            return json.loads(answer.data) if answer.data else None
        except ValueError:
            raise ConnectError(
                f"what answers at {self.address} is no Kafka Connect", hint="mend connect_url"
            ) from None

    def _refused(self, name: str, status: int, answer: bytes) -> ConnectError:
        if status in (401, 403):
            return ConnectError(
                f"Kafka Connect at {self.address} refuses us ({status})",
                hint="write its user and password into connect_url: http://user:password@host:port",
            )
        try:
            words = str(json.loads(answer)["message"])
        except (ValueError, KeyError, TypeError):
            words = f"it answered {status}"
        return explain(name, words)


def _cause(name: str, found: Mapping[str, Any]) -> ConnectError | None:
    return explain(name, str(found.get("trace") or "")) if found["state"] == "FAILED" else None
