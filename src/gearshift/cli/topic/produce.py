"""`gearshift topic produce`: send JSON to a topic, checked against its registered schema."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gearshift.cli.output import Output, OutputOption, print_json, read_settings, say
from gearshift.cli.topic.consume import TopicArgument

if TYPE_CHECKING:
    from gearshift.cli.topic.lines import Lines
    from gearshift.connection import Connection
    from gearshift.topics.placements import PlacedReceipt


def produce(
    topic: TopicArgument,
    value: Annotated[
        str | None, typer.Option(help="One value as JSON; default: stdin, one per line.", show_default=False)
    ] = None,
    key: Annotated[str | None, typer.Option(help="The key of every record.", show_default=False)] = None,
    key_field: Annotated[
        str | None, typer.Option(help="The field of the value that is the key.", show_default=False)
    ] = None,
    app: Annotated[
        Path | None,
        typer.Option(
            "--app",
            metavar="FILE",
            help="Take the key field from this app's declaration.",
            show_default=False,
        ),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, repeatable.", show_default=False)
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(help="The partition; default: by the key.", min=0, show_default=False),
    ] = None,
    records: Annotated[
        bool, typer.Option("--records", help="Lines are records as `consume -o json` prints them.")
    ] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Send lines as they are, without a schema.")] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Send values to a topic, encoded with its latest registered schema.

    A line that does not fit is not sent and ends the command, which names the line and the field; the lines before it
    were sent. It accepts what `consume -o json` prints: bytes as base64, decimals as text.
    """
    from gearshift.cli.topic.lines import Lines
    from gearshift.stack import connect
    from gearshift.topics import Admin
    from gearshift.topics.encoders import Encoders

    if sum(each is not None for each in (key, key_field, app)) > 1:
        raise typer.BadParameter("choose one of --key, --key-field and --app", param_hint="--key")
    if records and (value is not None or key is not None or key_field is not None or app is not None):
        raise typer.BadParameter("records have their own keys and values", param_hint="--records")
    headers = [_header(each) for each in header or ()]
    key_field = _declared_key(app, topic) if app is not None else key_field
    connection = connect(read_settings())
    with Admin(connection) as admin:
        admin.require([topic])  # a misspelled topic has no schema either: that is the better error
    encoders = Encoders() if raw else Encoders.of(connection, topic)
    lines = Lines(encoders, key=key, key_field=key_field, headers=headers, records=records)
    given = [(0, value.encode())] if value is not None else _stdin()
    _send(connection, topic, lines, given, partition, output)


def _send(
    connection: Connection,
    topic: str,
    lines: Lines,
    given: Iterable[tuple[int, bytes]],
    partition: int | None,
    output: Output,
) -> None:
    from gearshift.errors import GearshiftError
    from gearshift.topics import Admin, Producer
    from gearshift.topics.placements import PlacedReceipt

    with Admin(connection) as admin:
        admin.require([topic])[topic].require_partition(partition)
        largest = admin.largest_record(topic)
    receipt = PlacedReceipt()
    refused: GearshiftError | None = None
    try:
        with Producer(connection, largest=largest) as producer:
            try:
                for number, line in given:
                    with _at_line(number, topic):
                        record = lines.record(line)
                        record.require_at_most(largest)
                    producer.send_bytes(
                        topic,
                        record.value,
                        key=record.key,
                        headers=record.headers,
                        receipt=receipt,
                        partition=partition,
                    )
            except GearshiftError as error:
                refused = error
            except KeyboardInterrupt:
                say("stopped")
            producer.await_reports(receipt)
    except GearshiftError as error:
        refused = refused or error
    _report(topic, receipt, output, refused)


def _header(written: str) -> tuple[str, bytes]:
    name, equals, content = written.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{written!r} is not NAME=VALUE", param_hint="--header")
    return name, content.encode("utf-8", "surrogateescape")


def _declared_key(file: Path, topic: str) -> str | None:
    import contextlib

    from gearshift.errors import DefinitionError
    from gearshift.runner.loading import load_app

    with contextlib.redirect_stdout(sys.stderr):  # stdout is for data, not for what the app's file prints
        declared = load_app(file).graph.topics
    if topic not in declared:
        raise DefinitionError(
            f"the app does not declare topic {topic!r}",
            hint=f"it declares {', '.join(sorted(declared))}" if declared else "declare it with app.topic",
            file=str(file),
        )
    return declared[topic].key


def _stdin() -> Iterator[tuple[int, bytes]]:
    if sys.stdin.isatty():
        say("one JSON value per line; end with Ctrl-D")
    for number, line in enumerate(sys.stdin.buffer, 1):
        line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        line = line.rstrip(b"\r\n")
        if line.strip():
            yield number, line


@contextmanager
def _at_line(number: int, topic: str) -> Generator[None]:
    """Name the line of a value that does not fit; number 0 is the value of the option."""
    from gearshift.errors import EncodeError
    from gearshift.schemas.encoding import Misfit

    where = f"line {number}" if number else "--value"
    hint = f"gearshift topic describe {topic} shows the schema"
    try:
        yield
    except Misfit as misfit:
        raise EncodeError(f"{where}: {misfit}", hint=hint, topic=topic) from None
    except EncodeError as error:
        raise EncodeError(f"{where}: {error.what}", hint=error.hint, topic=topic) from None


def _report(topic: str, receipt: PlacedReceipt, output: Output, refused: Exception | None) -> None:
    placed = receipt.placements
    sent = sum(each.records for each in placed)
    if output is Output.JSON:
        print_json(
            {
                "topic": topic,
                "sent": sent,
                "partitions": [
                    {
                        "partition": each.partition,
                        "records": each.records,
                        "first_offset": each.first,
                        "last_offset": each.last,
                    }
                    for each in placed
                ],
            }
        )
    else:
        where = ", ".join(
            f"partition {each.partition} offset {each.first}"
            + (f"–{each.last}" if each.last > each.first else "")
            for each in placed
        )
        what = "1 record" if sent == 1 else f"{sent:,} records"
        (say if refused else typer.echo)(f"sent {what} to {topic}" + (f": {where}" if where else ""))
    if refused is not None:
        raise refused
