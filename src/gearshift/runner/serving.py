"""The console of an app that runs or stands by, and the file through which other terminals find it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from gearshift.alert import Alert
from gearshift.connection import Connection
from gearshift.console.alerts import Alerts
from gearshift.console.console import Console, Running
from gearshift.console.live import Live
from gearshift.console.runner_info import RunnerInfo
from gearshift.console.server import ConsoleServer, require_free_port
from gearshift.settings import Settings
from gearshift.stack.processes.service import Pid
from gearshift.storage.reaching import require_all_reachable


def require_ready(settings: Settings) -> None:
    """Require what an app cannot start itself: its stores, and the port of its console."""
    require_all_reachable(settings.checkpoints_uri, settings.warehouse_uri)
    require_free_port(settings)


def make_console(
    running: Running,
    settings: Settings,
    connection: Connection,
    *,
    file: Path | None,
    read_only: bool,
    notify: Callable[[list[Alert]], None],
) -> ConsoleServer:
    """The console, to be opened."""
    console = Console(
        settings=settings,
        connection=connection,
        live=Live(running.status, Alerts().of, notify),
        running=running,
        file=str(file) if file else None,
        read_only=read_only,
    )
    return ConsoleServer(console)


def announce(
    server: ConsoleServer, app: str, settings: Settings, *, file: Path | None, spark: Pid | None
) -> None:
    """Write the file, which names the console's address and token."""
    pid = Pid.of(os.getpid())
    assert pid is not None
    RunnerInfo(
        app=app,
        file=str(file or ""),
        pid=pid,
        spark_pid=spark,
        host=settings.console_host,
        port=server.port,
        https=server.access.https,
        token=server.access.token,
        page=server.page,
    ).write(settings.home)
