"""A client of Kafka Connect's REST API: create, inspect, restart and delete connectors."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast
from urllib.parse import quote, unquote, urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from gearshift.errors import ConnectError, ConnectUnreachableError, SettingsError
from gearshift.sources.cdc.connect_failures import NO_ENTRY, explain

PAUSED = "PAUSED"
STOPPED = "STOPPED"
_FAILED = "FAILED"
_REBALANCING = 409
_MISSING = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task of a connector; `cause` explains a failure in one sentence."""

    number: int
    state: str
    cause: ConnectError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorStatus:
    """A connector's status; the states are Connect's: RUNNING, PAUSED, STOPPED, UNASSIGNED, RESTARTING, FAILED."""

    state: str
    tasks: tuple[Task, ...]
    cause: ConnectError | None = None

    @property
    def running(self) -> bool:
        """Whether the connector and all its tasks are running."""
        return (
            self.state == "RUNNING"
            and bool(self.tasks)
            and all(task.state == "RUNNING" for task in self.tasks)
        )

    @property
    def failure(self) -> ConnectError | None:
        """Why the connector, or the first failed task, has failed."""
        return self.cause or next((task.cause for task in self.tasks if task.cause is not None), None)

    def as_json(self) -> dict[str, Any]:
        """The status as plain data."""
        return {
            "state": self.state.lower(),
            "tasks": [
                {
                    "number": task.number,
                    "state": task.state.lower(),
                    "cause": str(task.cause) if task.cause is not None else None,
                }
                for task in self.tasks
            ],
        }


class Connect:
    """A client of one Connect; its errors do not contain the user and password of its address."""

    def __init__(self, url: str, *, timeout: timedelta = timedelta(seconds=30)) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise SettingsError(f"connect_url is not a valid URL: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError(
                "connect_url is not an http or https address", hint="use the form http://127.0.0.1:8083"
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
        """Create or update the connector; Connect validates the configuration before this returns."""
        try:
            self._request("PUT", name, "/config", body=config)
        except ConnectError as error:
            raise self._explained(name, config, error) from None

    def _explained(self, name: str, config: Mapping[str, str], error: ConnectError) -> ConnectError:
        # Connect 4.3 fails on Debezium's report of a rejected login; its validate endpoint returns the reason.
        if "ConfigValueInfo" not in error.what:
            return error
        return explain(name, self._objections(config) or NO_ENTRY)

    def create_stopped(self, name: str, config: Mapping[str, str]) -> None:
        """Create the connector in the STOPPED state."""
        body = {"name": name, "config": dict(config), "initial_state": "STOPPED"}
        try:
            self._request("POST", "", "", body=body)
        except ConnectError as error:
            raise self._explained(name, config, error) from None

    def offsets(self, name: str) -> list[dict[str, Any]]:
        """The connector's source offsets, in Debezium's format; empty if it has not started."""
        found = self._request("GET", name, "/offsets", missing=True) or {}
        entries = cast("list[dict[str, Any]]", found.get("offsets") or [])
        return [cast("dict[str, Any]", entry["offset"]) for entry in entries if entry.get("offset")]

    def delete_offsets(self, name: str) -> None:
        """Delete the source offsets of a stopped connector."""
        self._request("DELETE", name, "/offsets")

    def stop(self, name: str, *, within: timedelta) -> None:
        """Stop the connector, and return when none of its tasks is running."""
        self._request("PUT", name, "/stop")
        self._await(name, "stop", lambda status: status.state == STOPPED and not status.tasks, within)

    def pause(self, name: str) -> None:
        """Pause the connector, and return when it is paused; a failed one is paused when it is restarted."""
        self._request("PUT", name, "/pause")
        self._await(name, "pause", lambda status: status.state in (PAUSED, _FAILED), self._timeout)

    def resume(self, name: str) -> None:
        """Resume a stopped or paused connector, and return when it has left that state."""
        self._request("PUT", name, "/resume")
        self._await(name, "start", lambda status: status.state not in (STOPPED, PAUSED), self._timeout)

    def names(self) -> list[str]:
        """The names of all connectors."""
        found = cast("Any", self._request("GET", "", ""))
        return sorted(str(name) for name in found or ())

    def config(self, name: str) -> dict[str, str] | None:
        """The connector's configuration, with references instead of secrets; None if it does not exist."""
        found = self._request("GET", name, "/config", missing=True)
        return None if found is None else {str(key): str(value) for key, value in found.items()}

    def status(self, name: str) -> ConnectorStatus | None:
        """The connector's status; None if it does not exist."""
        found = self._request("GET", name, "/status", missing=True)
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
        """Restart the connector and its tasks where they have failed."""
        self._request("POST", name, "/restart?includeTasks=true&onlyFailed=true")

    def restart(self, name: str) -> None:
        """Restart the connector and all its tasks; a paused one stays paused."""
        self._request("POST", name, "/restart?includeTasks=true&onlyFailed=false")

    def delete(self, name: str) -> None:
        """Delete the connector; its offsets in Connect and its replication slot stay."""
        self._request("DELETE", name, "", missing=True)

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def _await(
        self, name: str, verb: str, is_done: Callable[[ConnectorStatus], bool], within: timedelta
    ) -> None:
        deadline = time.monotonic() + within.total_seconds()
        while (status := self.status(name)) is not None and not is_done(status):
            if time.monotonic() > deadline:
                raise ConnectError(f"connector {name} does not {verb}", hint="see Connect's log")
            time.sleep(0.2)

    def _objections(self, config: Mapping[str, str]) -> str:
        kind = config["connector.class"].rpartition(".")[2]
        try:
            found = self._request("PUT", kind, "/config/validate", body=config, under="connector-plugins")
        except ConnectUnreachableError:
            raise
        except ConnectError:
            return ""
        entries = cast("list[dict[str, Any]]", (found or {}).get("configs", []))
        values = [cast("dict[str, Any]", entry["value"]) for entry in entries if entry.get("value")]
        return "\n".join(str(error) for value in values for error in value.get("errors", []))

    def _request(
        self,
        method: str,
        name: str,
        rest: str,
        *,
        body: Mapping[str, Any] | None = None,
        missing: bool = False,
        under: str = "connectors",
    ) -> dict[str, Any] | None:
        deadline = time.monotonic() + self._timeout.total_seconds()
        headers = self._headers | ({} if body is None else {"Content-Type": "application/json"})
        while True:
            try:
                response = self._pool.urlopen(
                    method,
                    f"{self._path}/{under}" + (f"/{quote(name, safe='')}{rest}" if name else ""),
                    body=None if body is None else json.dumps(body).encode(),
                    headers=headers,
                    redirect=False,
                    retries=False,
                )
            except (HTTPError, OSError) as error:
                raise ConnectUnreachableError(
                    f"Kafka Connect at {self.address} is not reachable: {type(error).__name__}",
                    hint='start it with "gearshift up --with connect", or correct connect_url',
                ) from None
            # During a rebalance, which takes a second or two, Connect responds with 409.
            if response.status != _REBALANCING or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        if missing and response.status == _MISSING:
            return None
        if not 200 <= response.status < 300:
            raise self._refused(name, response.status, response.data)
        try:
            return json.loads(response.data) if response.data else None
        except ValueError:
            raise ConnectError(
                f"{self.address} is not a Kafka Connect worker", hint="correct connect_url"
            ) from None

    def _refused(self, name: str, status: int, response: bytes) -> ConnectError:
        if status in (401, 403):
            return ConnectError(
                f"authentication to Kafka Connect at {self.address} failed (HTTP {status})",
                hint="add its user and password to connect_url: http://user:password@host:port",
            )
        try:
            message = str(json.loads(response)["message"])
        except (ValueError, KeyError, TypeError):
            message = f"Connect responded with HTTP {status}"
        return explain(name, message)


def _cause(name: str, found: Mapping[str, Any]) -> ConnectError | None:
    return explain(name, str(found.get("trace") or "")) if found["state"] == _FAILED else None
