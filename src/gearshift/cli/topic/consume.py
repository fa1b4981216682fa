"""`gearshift topic consume`: the records of any topic, decoded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gearshift.cli.output import Output, OutputOption, read_settings, say
from gearshift.cli.printable import json_text, quiet_end, require_reader, visible

if TYPE_CHECKING:
    from gearshift.schemas.printing import Printer, Shown
    from gearshift.topics.browsing import Browser
    from gearshift.topics.reader import ConsumedRecord

TopicArgument = Annotated[str, typer.Argument(help="The topic's name.", show_default=False)]
_PREVIEW = 200  # bytes of a record that cannot be decoded


def consume(
    topic: TopicArgument,
    start: Annotated[
        str,
        typer.Option(
            "--from", help="earliest, latest, a time such as 2026-01-31T12:00:00Z, or -10 for the last ten."
        ),
    ] = "earliest",
    partition: Annotated[
        int | None, typer.Option(help="Only this partition.", min=0, show_default=False)
    ] = None,
    offset: Annotated[
        int | None, typer.Option(help="From this offset of the partition.", min=0, show_default=False)
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Only records with this key, as it is printed.", show_default=False)
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--max", "-n", help="Stop after this many records.", min=1, show_default=False),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Then wait for new records, until Ctrl-C.")
    ] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Print the records of a topic, each decoded by the schema that it was written with.

    It reads outside of any consumer group. Bytes are printed as base64, decimals as text, times in UTC. A record that
    cannot be decoded is printed with the reason.
    """
    from gearshift.schemas.printing import Printer
    from gearshift.stack import connect
    from gearshift.topics.browsing import Begin, Browser
    from gearshift.topics.record_data import record_data

    if offset is not None and start != "earliest":
        raise typer.BadParameter("choose --from or --offset", param_hint="--offset")
    begin = Begin.parse(start)
    connection = connect(read_settings())
    with quiet_end(), Printer.of(connection) as printer:
        browser = Browser(connection, topic, partition=partition, wanted=_wanted(printer, key))
        first = browser.begin(begin) if offset is None else browser.from_offset(offset)
        lines = _limited(_all(browser, first, follow), limit)
        # Closed here: an end in the middle must close the connections before Python exits.
        with closing(lines):
            for record in lines:
                if record is None:
                    sys.stdout.flush()
                    require_reader()
                else:
                    as_data = record_data(record, printer)
                    sys.stdout.write((json_text(as_data) if output is Output.JSON else _line(as_data)) + "\n")


def _all(browser: Browser, first: Iterator[ConsumedRecord], follow: bool) -> Iterator[ConsumedRecord | None]:
    yield from first
    if follow:
        yield None
        yield from browser.follow(say)


def _limited(records: Iterator[ConsumedRecord | None], limit: int | None) -> Generator[ConsumedRecord | None]:
    count = 0
    for record in records:
        yield record
        count += record is not None
        if count == limit:
            return


def _wanted(printer: Printer, key: str | None) -> Callable[[ConsumedRecord], bool]:
    from gearshift.topics.browsing import all_records
    from gearshift.topics.record_data import has_key

    return all_records if key is None else has_key(key, printer, _word)


def _line(record: dict[str, Any]) -> str:
    """A record for people: partition/offset, time, key, value and headers.

    >>> _line({"partition": 0, "offset": 7, "timestamp": None, "key": "m-1", "key_format": "text", "headers": [],
    ...        "value": {"load_kw": 2.5}, "format": "avro"})
    '0/7  –  m-1  {"load_kw": 2.5}'
    """
    value = "tombstone" if record["format"] is None else _written(record["value"], record["format"])
    if "error" in record:
        shown = value if len(value) <= _PREVIEW else f"{value[:_PREVIEW]}…"
        value = f"[cannot be decoded: {visible(record['error'])}]  {shown}"
    key = "–" if record["key_format"] is None else _written(record["key"], record["key_format"])
    parts = [f"{record['partition']}/{record['offset']}", record["timestamp"] or "–", key, value]
    for header in record["headers"]:
        content = f"base64:{header['base64']}" if "base64" in header else header["value"] or ""
        parts.append(visible(f"{header['name']}={content}"))
    return "  ".join(parts)


def _written(datum: Any, how: str) -> str:
    if how == "text":
        return visible(datum)
    return f"base64:{datum}" if how == "binary" else json_text(datum)


def _word(shown: Shown) -> str:
    return _written(shown.datum, shown.how)
