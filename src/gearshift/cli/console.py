"""`gearshift console`: the page of a running app, or of a cluster alone."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Annotated

import typer

from gearshift.cli.output import read_settings, say


def console(
    read_only: Annotated[bool, typer.Option("--read-only", help="Make its pages read-only.")] = False,
) -> None:
    """Print the address of the running app's console; without an app, serve one for the cluster until Ctrl-C."""
    from gearshift.console.runner_info import RunnerInfo

    settings = read_settings()
    runner = RunnerInfo.read(settings.home)
    if runner is not None and runner.pid.alive:
        if read_only:
            say("the console of a running app is read-only if it runs with --read-only")
        sys.stdout.write(f"{runner.page}\n")
        return
    from gearshift.console.console import Console
    from gearshift.console.live import Live
    from gearshift.console.server import ConsoleServer
    from gearshift.stack import connect

    connection = connect(settings)
    cluster = {"app": None, "bootstrap_servers": connection.bootstrap_servers}
    server = ConsoleServer(
        Console(
            settings=settings,
            connection=connection,
            live=Live(lambda: cluster),
            read_only=read_only,
        )
    )
    signal.signal(signal.SIGTERM, _as_interrupt)
    server.open()
    try:
        sys.stdout.write(f"{server.page}\n")
        sys.stdout.flush()
        say(f"the console of {connection.bootstrap_servers} is open; press Ctrl-C to stop")
        threading.Event().wait()
    except KeyboardInterrupt:
        say("stopped")
    finally:
        server.close()


def _as_interrupt(*_: object) -> None:
    raise KeyboardInterrupt
