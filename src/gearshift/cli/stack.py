"""`gearshift up`, `down` and `doctor`: the local services."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gearshift.cli.output import Output, OutputOption, print_json, read_settings, say

if TYPE_CHECKING:
    from gearshift.stack import Stack


def up(
    brokers: Annotated[int | None, typer.Option(help="Brokers in the local Kafka: 1 or 3.")] = None,
    secure: Annotated[
        bool | None, typer.Option("--secure", help="Start a Kafka with TLS, SCRAM and ACLs.")
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Leave the stack running in the background.")
    ] = False,
    services: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="NAME,…", help="Start these too: cassandra, postgres, mariadb, connect, hdfs."
        ),
    ] = None,
) -> None:
    """Start Kafka, the schema registry and the chosen services, unless they are already running."""
    from gearshift import stack as local
    from gearshift.stack.processes import background as supervisor

    extra = ",".join(services) if services else None
    settings = read_settings(brokers=brokers, secure=secure, services=extra)
    if detach:
        _print_addresses(supervisor.detach(settings))
        return
    supervisor.end_on_term()
    try:
        with local.up(settings, progress=say) as stack:
            _print_addresses(stack)
            if not stack.owned:
                return
            say("press Ctrl-C to stop")
            supervisor.hold(stack, progress=say)
    except KeyboardInterrupt:
        say("stopped")


def down() -> None:
    """Stop the local services, even if another command started them."""
    from gearshift import stack as local

    say("stopped" if local.down(read_settings()) else "nothing is running")


def doctor(output: OutputOption = Output.TEXT) -> None:
    """Check that this machine has what Gearshift needs."""
    from gearshift.stack.doctor import diagnose

    findings = diagnose(read_settings())
    if output is Output.JSON:
        print_json([asdict(finding) for finding in findings])
    else:
        _print_table([asdict(finding) for finding in findings])
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


def _print_addresses(stack: Stack) -> None:
    from gearshift.settings import KNOWN_SERVICES
    from gearshift.stack.services.accounts import USER

    typer.echo(f"kafka      {stack.bootstrap_servers}\nregistry   {stack.registry_url}")
    for service in stack.services:
        if service.name in KNOWN_SERVICES:  # the brokers' address is already printed
            typer.echo(f"{service.name:<10} {service.address}")
    for service in stack.services:
        say(f"{service.name}: process {service.pid.number}, log {service.log}")
    how = {"kafka": "with the properties", "registry": "with the bearer token"}
    for name, file in stack.credential_files().items():
        say(f"{name}: other clients log in {how.get(name, f'as {USER} with the password')} in {file}")
    sys.stdout.flush()


def _print_table(findings: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", "", "found", "what to do", box=box.SIMPLE)
    for finding in findings:
        mark = Text("ok", "green") if finding["ok"] else Text("wrong", "bold red")
        table.add_row(mark, *(Text(finding[name]) for name in ("name", "found", "hint")))
    Console().print(table)
