"""`gearshift acls`: the rules that an app needs on a Kafka with ACLs."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from gearshift.cli.output import Output, OutputOption, print_json, read_settings, say


def acls(
    file: Annotated[Path, typer.Argument(help="The Python file that declares the App.", show_default=False)],
    principal: Annotated[
        str | None,
        typer.Option(help="Who gets the rules, such as User:meters; the configured user if unset."),
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Print the rules (ACLs) that an app needs, one line each for kafka-acls.sh, without starting anything."""
    from gearshift.runner.loading import load_app
    from gearshift.stack.services.accounts import USER
    from gearshift.topics.access.principal import UNKNOWN, principal_of
    from gearshift.topics.access.rules import rules_of

    # stdout is for the rules: what the app's file prints on import must not mix with it.
    with contextlib.redirect_stdout(sys.stderr):
        rules = rules_of(load_app(file).graph)
    settings = read_settings()
    kafka = {name: value.get_secret_value() for name, value in settings.kafka.items()}
    local = settings.bootstrap_servers is None
    chosen = principal or principal_of({"sasl.username": USER} if local else kafka)
    if chosen == UNKNOWN:
        say("no user is configured; name one with --principal User:NAME")
    if output is Output.JSON:
        print_json(
            [
                {
                    "principal": chosen,
                    "resource": rule.resource,
                    "name": rule.name,
                    "pattern": "prefixed" if rule.prefixed else "literal",
                    "operations": list(rule.operations),
                }
                for rule in rules
            ]
        )
        return
    for rule in rules:
        typer.echo(rule.line(chosen))
