"""`gearshift table`: list, query, publish and maintain warehouse tables."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gearshift.cli.output import Output, OutputOption, print_json, read_settings, say

if TYPE_CHECKING:
    from datetime import timedelta

    from gearshift.tables import Answer

app = typer.Typer(help="List, query, publish and maintain warehouse tables.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="The table's name.", show_default=False)]


@app.command("list")
def list_tables(output: OutputOption = Output.TEXT) -> None:
    """List the tables of the warehouse."""
    from gearshift import tables

    warehouse = read_settings().warehouse_uri
    found = [
        tables.describe_table(tables.table_uri(warehouse, name), name) for name in tables.names(warehouse)
    ]
    if output is Output.JSON:
        print_json(found)
        return
    from gearshift.cli.listing import number, plain, table, wide_console

    shown = table("table", "partitioned by", "last change", right=("version", "rows", "files", "size"))
    for each in found:
        shown.add_row(
            plain(each["table"]),
            plain(", ".join(each["partition_by"])),
            plain(each["changed_at"] or ""),
            number(each["version"]),
            number(each["rows"]),
            number(each["files"]),
            _size(each["bytes"]),
        )
    wide_console().print(shown if found else f"no tables in {warehouse} yet")


@app.command()
def show(name: NameArgument, output: OutputOption = Output.TEXT) -> None:
    """Show a table's columns, its size and when it last changed."""
    from gearshift import tables

    uri = tables.find(read_settings().warehouse_uri, name)
    found = tables.describe_columns(uri, name)
    if output is Output.JSON:
        print_json(found)
        return
    from gearshift.cli.listing import number, plain, table, wide_console

    console = wide_console()
    console.print(f"[bold]{plain(name)}[/] at {plain(uri)}", soft_wrap=True)
    console.print(
        f"version {found['version']}, {number(found['rows'])} rows in {number(found['files'])} files "
        f"({_size(found['bytes'])}), changed {plain(found['changed_at'])}"
    )
    shown = table("column", "type", "")
    for column in found["columns"]:
        of_partition = "partition" if column["name"] in found["partition_by"] else ""
        shown.add_row(plain(column["name"]), plain(column["type"]), of_partition)
    console.print(shown)


@app.command()
def history(
    name: NameArgument,
    limit: Annotated[int, typer.Option(help="How many commits to show, newest first.", min=1)] = 20,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show a table's commits, newest first; `sql` can read `NAME@vVERSION` until it is vacuumed."""
    from gearshift import tables

    changes = tables.history(tables.find(read_settings().warehouse_uri, name), limit=limit)
    if output is Output.JSON:
        print_json([tables.describe_change(change) for change in changes])
        return
    from gearshift.cli.listing import number, plain, table, wide_console

    shown = table("version", "at", "operation", "writer", right=("batch", "rows"))
    for change in changes:
        shown.add_row(
            str(change.version),
            f"{change.at:%Y-%m-%d %H:%M:%S}",
            plain(change.operation.lower()),
            plain(change.writer),
            number(change.batch_id),
            number(change.rows),
        )
    wide_console().print(shown)


@app.command()
def sql(
    query: Annotated[
        str,
        typer.Argument(help='One query, such as "SELECT * FROM orders LIMIT 5"; - reads it from stdin.'),
    ],
    as_of: Annotated[str | None, typer.Option(help="Read all tables as of a time with a UTC offset.")] = None,
    engine: Annotated[str, typer.Option(help="duckdb (starts instantly) or spark.")] = "duckdb",
    output: OutputOption = Output.TEXT,
) -> None:
    """Query tables in SQL; `orders@v3` is table orders at version 3."""
    from gearshift import tables

    settings = read_settings()
    statement = sys.stdin.read() if query == "-" else query
    if not statement.strip():
        raise typer.BadParameter(
            'is empty; write one, such as "SELECT * FROM orders LIMIT 5"', param_hint="QUERY"
        )
    if not statement.isascii() and any("\ud800" <= each <= "\udfff" for each in statement):
        raise typer.BadParameter("is not UTF-8 text", param_hint="QUERY")
    moment = _instant(as_of) if as_of is not None else None
    if engine == "duckdb":
        answer = tables.sql(settings.warehouse_uri, statement, as_of=moment)
    elif engine == "spark":
        from gearshift.spark.sql import ask_spark

        answer = ask_spark(settings, statement, as_of=moment)
    else:
        raise typer.BadParameter("must be duckdb or spark", param_hint="--engine")
    _print_answer(answer, output)


@app.command()
def publish(
    name: NameArgument,
    hive: Annotated[bool, typer.Option("--hive", help="As a table in the Hive metastore.")] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Publish a table's newest version, so that Hive and Spark SQL can read its committed rows."""
    from gearshift import tables
    from gearshift.spark.hive.publishing import publish_now

    if not hive:
        raise typer.BadParameter("choose where to publish: --hive", param_hint="publish")
    settings = read_settings()
    done, metastore = publish_now(settings, tables.find(settings.warehouse_uri, name))
    if output is Output.JSON:
        print_json({**asdict(done), "metastore": metastore.uri, "spark": metastore.spark_configuration})
        return
    sys.stdout.write(
        f"{name}: version {done.version} with {done.rows:,} rows is {done.table} of {metastore.words}\n"
    )
    say("a Spark session with Hive support reads it with:")
    for option, value in metastore.spark_configuration.items():
        say(f"  --conf '{option}={value}'")


@app.command()
def compact(name: NameArgument, output: OutputOption = Output.TEXT) -> None:
    """Compact a table's small files; readers and writers are not blocked."""
    from gearshift import tables

    done = tables.compact(tables.find(read_settings().warehouse_uri, name))
    if output is Output.JSON:
        print_json({"table": name, "taken": done.taken, "made": done.made, "version": done.version})
    else:
        sys.stdout.write(
            f"{name}: {done.taken} files became {done.made}\n" if done.taken else f"{name}: nothing to do\n"
        )


@app.command()
def vacuum(
    name: NameArgument,
    older_than: Annotated[
        str, typer.Option(help="How long old versions stay readable; at least an hour.")
    ] = "7 days",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the files that would be removed.")
    ] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Remove files that no recent version and no running query needs, and leftovers of killed writers."""
    from gearshift import tables
    from gearshift.pipelines.ledger.listing import versions_in_use

    settings = read_settings()
    uri = tables.find(settings.warehouse_uri, name)
    in_use = versions_in_use(settings.checkpoints_uri).get(name, ())
    done = tables.vacuum(uri, _duration(older_than), keep=in_use, dry_run=dry_run)
    if output is Output.JSON:
        print_json({"table": name, "dry_run": done.dry_run, "files": list(done.paths)})
        return
    if dry_run:
        sys.stdout.writelines(f"{path}\n" for path in done.paths)
    say(f"{name}: {len(done.paths)} files {'would be' if dry_run else 'were'} removed")


def _print_answer(answer: Answer, output: Output) -> None:
    if output is Output.JSON:
        from gearshift.tables import as_json

        print_json(as_json(answer.dicts()))
        return
    from gearshift.cli.listing import plain, table, wide_console

    numeric = ("INT", "DECIMAL", "DOUBLE", "FLOAT", "HUGE")
    shown = table()
    for name, kind in zip(answer.columns, answer.types, strict=True):
        right = any(word in kind.upper() for word in numeric) and "[" not in kind and "(" not in kind[:7]
        shown.add_column(plain(name), justify="right" if right else "left")
    for row in answer.rows:
        shown.add_row(*("" if value is None else plain(_text(value)) for value in row))
    console = wide_console()
    console.print(shown if answer.columns else "done")
    rows = len(answer.rows)
    say(f"{rows} row{'' if rows == 1 else 's'}")


def _text(value: Any) -> str:
    return value.isoformat(sep=" ") if isinstance(value, datetime) else str(value)


def _size(count: float) -> str:
    """A human-readable size.

    >>> _size(512), _size(2_500_000)
    ('512 B', '2.4 MB')
    """
    units = iter(("B", "KB", "MB", "GB", "TB"))
    unit = next(units)
    while count >= 1024 and unit != "TB":
        count, unit = count / 1024, next(units)
    return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"


def _duration(text: str) -> timedelta:
    from gearshift.freshness import Freshness

    return Freshness.parse(text).duration


def _instant(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a time; use one such as 2026-01-31T08:00+01:00", param_hint="--as-of"
        ) from None
    if moment.tzinfo is None:
        raise typer.BadParameter(f"{text!r} has no time zone; add Z or +01:00", param_hint="--as-of")
    return moment
