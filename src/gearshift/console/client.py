"""Requests of the command line to the runner of a folder."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gearshift.console.problems import restore
from gearshift.console.runner_info import RunnerInfo
from gearshift.errors import RunnerError


def ask(home: Path, method: str, path: str, body: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """Send a request to the runner of this folder, and yield each line of its response as it arrives."""
    runner = RunnerInfo.read(home)
    if runner is None or not runner.pid.alive:
        raise RunnerError(f"no runner is running in {home}", hint='start one with "gearshift run FILE"')
    connection = _connection(runner)
    try:
        connection.request(
            method,
            path,
            body=json.dumps(body) if body is not None else None,
            headers={"Authorization": f"Bearer {runner.token}", "Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        if answer.status != 200:
            raise _refused(answer.status, answer.read())
        for line in answer:
            yield json.loads(line)
    except (OSError, http.client.HTTPException) as error:
        raise RunnerError(
            f"the connection to the runner failed: {error}", hint='run "gearshift status"'
        ) from error
    finally:
        connection.close()


def _connection(runner: RunnerInfo) -> http.client.HTTPConnection:
    if not runner.https:
        return http.client.HTTPConnection(runner.host, runner.port)
    # Its certificate is for the name by which other machines reach it; the file is proof enough on this one.
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(runner.host, runner.port, context=unverified)


def _refused(status: int, body: bytes) -> Exception:
    try:
        return restore(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return RunnerError(
            f"the runner responded with HTTP {status}",
            hint="check that it runs the same version of Gearshift",
        )
