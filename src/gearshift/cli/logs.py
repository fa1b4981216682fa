"""`gearshift logs`: the logs of the local services, of Spark and of the deliveries' consumers."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gearshift.cli.output import Output, OutputOption, print_json, read_settings
from gearshift.cli.printable import quiet_end, require_reader, visible
from gearshift.redaction import redact

if TYPE_CHECKING:
    from gearshift.cli.log_files import Log


_POLL_SECONDS = 0.2


def logs(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A service, a delivery, spark, check or batch; default: list.", show_default=False
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Then wait for new lines, until Ctrl-C.")
    ] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", help="Begin with this many of the last lines.", min=0)
    ] = 50,
    previous: Annotated[
        bool, typer.Option("--previous", help="The log of the service's start before the last one.")
    ] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the end of a log, or list the logs. The runner's own messages are in its terminal, not in a file."""
    from gearshift.cli.log_files import choose, find

    home = read_settings().home
    if name is None:
        _list(find(home), output, home)
        return
    if output is Output.JSON:
        raise typer.BadParameter("json lists the logs; leave out the name", param_hint="--output")
    if previous and follow:
        raise typer.BadParameter("a previous log does not grow", param_hint="--previous")
    chosen = choose(find(home), name, home=home, previous=previous)
    several = len(chosen) > 1
    with quiet_end(), closing(_lines(chosen, lines, follow=follow)) as found:
        for path, line in found:
            if line is None:
                sys.stdout.flush()
                require_reader()
            else:
                before = f"{path.name.partition('.log')[0]}: " if several else ""
                sys.stdout.write(before + visible(redact(line)) + "\n")


def _lines(chosen: list[Path], last: int, *, follow: bool) -> Generator[tuple[Path, str | None]]:
    """Lines with their file; None whenever there is nothing new."""
    from gearshift.cli.log_files import LogReader

    with ExitStack() as opened:
        readers = [opened.enter_context(LogReader(path, last=last)) for path in chosen]
        while True:
            for reader in readers:
                for line in [*reader.lines(), *([] if follow else reader.end())]:
                    yield reader.path, line
            if not follow:
                return
            yield chosen[0], None
            time.sleep(_POLL_SECONDS)


def _list(found: list[Log], output: Output, home: Path) -> None:
    from gearshift.cli.listing import number, plain, table, wide_console
    from gearshift.cli.output import say

    data: list[dict[str, Any]] = [
        {
            "name": each.name,
            "file": str(each.path),
            "bytes": each.size,
            "written": each.written.isoformat(timespec="seconds"),
        }
        for each in found
    ]
    if output is Output.JSON:
        print_json(data)
        return
    if not found:
        say(f"there are no logs in {home}; gearshift run and gearshift up write them")
        return
    rows = table("log", "last written", "file", right=("bytes",))
    for each, log in zip(data, found, strict=True):
        rows.add_row(
            plain(each["name"]),
            f"{log.written.astimezone():%Y-%m-%d %H:%M:%S}",
            plain(each["file"]),
            number(each["bytes"]),
        )
    wide_console().print(rows)
