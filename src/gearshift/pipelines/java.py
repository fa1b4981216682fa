"""Spark's Java process as Python starts it: what it is told stays off its command line, and who calls back shows a token."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import JavaObject  # pyright: ignore[reportMissingTypeStubs]
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway  # pyright: ignore[reportUnknownVariableType]

from gearshift.stack.java import properties_text

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


@contextmanager
def told(configuration: Mapping[str, str], how: dict[str, Any]) -> Generator[Any]:
    """A gateway to a new Java process that has read this configuration from a file of ours: `ps` shows a command to all."""
    before = os.environ.get(_ARGUMENTS)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".conf") as file:  # of mode 0600
        file.write(properties_text(configuration))
        file.flush()
        ours = f"--properties-file {shlex.quote(file.name)} --load-spark-defaults"
        os.environ[_ARGUMENTS] = f"{ours} {before or 'pyspark-shell'}"
        try:
            gateway: Any = launch_gateway(None, how)
        finally:
            if before is None:
                del os.environ[_ARGUMENTS]
            else:
                os.environ[_ARGUMENTS] = before
    yield gateway


def lock_callbacks(gateway: Any) -> None:
    """Start the server through which Java calls Python functions, open to that Java alone.

    PySpark leaves it without a token, and py4j forgets its own when it is told the server's port.
    """
    token = gateway.java_parameters.auth_token
    gateway.python_parameters.auth_token = token
    ensure_callback_server_started(gateway)
    server: Any = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
    client = server.getCallbackClient()
    field = client.getClass().getSuperclass().getDeclaredField("authToken")
    field.setAccessible(True)
    field.set(client, token)
