"""Status, ledgers and check reports as tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from gearshift.cli.listing import number as _number
from gearshift.cli.listing import table as listing
from gearshift.cli.listing import wide_console
from gearshift.pipelines.intervals.log import Entry
from gearshift.pipelines.ledger.checkpoint import Offsets
from gearshift.pipelines.ledger.ledger import Ledger, Run
from gearshift.pipelines.ledger.scalings import Scaling


def status_table(runner: dict[str, Any]) -> RenderableType:
    """The status of pipelines, deliveries, change captures and sources."""
    pipelines = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("pipeline", "gear", "state"):
        pipelines.add_column(column)
    for column in ("in/s", "out/s", "lag", "p50", "p99", "records", "written", "dead"):
        pipelines.add_column(column, justify="right")
    for entry in runner["pipelines"]:
        state = entry["state"]
        if entry["next_run"] and state == "waiting":
            state = f"next run {_moment(entry['next_run'])}"
        pipelines.add_row(
            entry["name"],
            entry["gear"] + _chosen(entry) + _parallelism(entry),
            f"[red]{state}[/]" if entry["error"] else state,
            _number(entry["records_per_second"]),
            _number(entry["written_per_second"]),
            _number(entry["lag"]),
            _milliseconds(entry["latency_p50_ms"]),
            _milliseconds(entry["latency_p99_ms"]),
            _number(entry["records"]),
            _number(entry["written"]),
            _number(entry["dead_letters"]),
        )
    parts: list[RenderableType] = [f"[bold]{runner['app']}[/] on {runner['bootstrap_servers']}"]
    if runner["pipelines"]:
        parts.append(pipelines)
    if runner.get("deliveries"):
        parts.append(_deliveries_table(runner["deliveries"]))
    parts += [
        f"[red]{entry['name']}: {escape(entry['error'])}[/]"
        for entry in [*runner["pipelines"], *runner.get("deliveries", ())]
        if entry["error"]
    ]
    parts += [
        f"[yellow]{entry['name']}: {escape(entry['warning'])}[/]"
        for entry in runner["pipelines"]
        if entry.get("warning")
    ]
    parts += [
        f"[yellow]{entry['name']}: {entry['late_rows']:,} rows arrived too late; see gearshift batch list[/]"
        for entry in runner["pipelines"]
        if entry.get("late_rows")
    ]
    parts += [
        f"[yellow]{entry['name']}: {escape(note)}[/]"
        for entry in runner.get("deliveries", ())
        # More consumers do not help while the destination fails.
        if (note := f"retrying: {entry['retrying']}" if entry.get("retrying") else entry["advice"])
    ]
    parts += [_capture_line(entry) for entry in runner.get("captures", ())]
    parts += [
        f"source {source['name']} → {source['topic']}: {source['sent']:,} sent{_more_counts(source)}"
        + (f", [red]{escape(source['error'])}[/]" if source["error"] else "")
        for source in runner["sources"]
    ]
    return Group(*parts)


def _chosen(entry: dict[str, Any]) -> str:
    """How a pipeline came to its gear: by its gearbox, by a person, or as declared."""
    if entry.get("held_until"):
        return " held"
    if entry.get("chosen_by"):
        return f" {entry['chosen_by']}"
    return "" if entry["gear"] == entry["declared"] else " ⇄"  # not in the declared gear


def _parallelism(entry: dict[str, Any]) -> str:
    """The shuffle partitions of a pipeline with state, unless it has the usual two."""
    return f" ×{entry['parallelism']}" if entry.get("parallelism") not in (None, 2) else ""


def _more_counts(source: dict[str, Any]) -> str:
    """The other counts of a source, such as files, requests and rejections."""
    counts = (("failed", "set aside"), ("files", "files"), ("requests", "requests"), ("refused", "refused"))
    return "".join(f", {source[name]:,} {words}" for name, words in counts if source.get(name))


def _capture_line(entry: dict[str, Any]) -> str:
    state = "running" if entry["running"] else entry["state"]
    restarts = f", {entry['restarts']} restarts" if entry["restarts"] else ""
    line = f"change capture {entry['name']} → {', '.join(entry['topics'])}: {state}{restarts}"
    return line + (f", [red]{escape(entry['error'])}[/]" if entry["error"] else "")


def _deliveries_table(deliveries: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("delivery", "group", "state"):
        table.add_column(column)
    for column in ("consumers", "delivered", "lag", "in flight", "repeats", "retries", "dead"):
        table.add_column(column, justify="right")
    for entry in deliveries:
        state = "paused" if entry["paused"] else entry["state"]
        table.add_row(
            entry["name"],
            entry["group_id"],
            f"[red]{state}[/]" if entry["error"] else state,
            str(entry["consumers"]),
            _number(entry["delivered"]),
            _number(sum(entry["lag"].values())),
            _number(entry["in_flight"]),
            _number(entry["duplicates"]),
            _number(entry["retries"]),
            _number(entry["dead_letters"]),
        )
    return table


def show_status(found: dict[str, Any]) -> None:
    """Print the stack, then the runner."""
    console = wide_console()
    described = found["stack"]
    services = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("service", "state", "address", "pid", "log"):
        services.add_column(column)
    for service in described.get("services", []):
        services.add_row(
            service["name"],
            "ready" if service["ready"] else "[red]down[/]",
            f"127.0.0.1:{service['port']}",
            str(service["pid"]),
            str(service["log"]),
        )
    if described.get("services"):
        console.print(services)
    else:
        console.print("no local services are running; start them with [bold]gearshift up[/]")
    console.print()
    if found["runner"]:
        console.print(status_table(found["runner"]))
    else:
        console.print("no app is running here; start one with [bold]gearshift run FILE[/]")


def show_ledgers(ledgers: list[Ledger]) -> None:
    """Every run, and under each pipeline its proof."""
    console = wide_console()
    if not ledgers:
        console.print("nothing has run here yet")
    for ledger in ledgers:
        table = Table(
            title=f"{ledger.app}.{ledger.pipeline}",
            title_justify="left",
            box=None,
            pad_edge=False,
            header_style="bold",
        )
        for column in ("#", "gear", "from", "to", "why", "offsets"):
            table.add_column(column)
        for column in ("records", "written", "replayed", "dead", "gap", "pause"):
            table.add_column(column, justify="right")
        for run in ledger.runs:
            table.add_row(*_run_row(run))
        intervals = ledger.intervals
        if ledger.runs or not intervals:
            console.print(table)
            for run in ledger.runs:
                if run.paused_for:
                    console.print(f"#{run.number}: the pause was {run.paused_for}", soft_wrap=True)
                if run.note:
                    console.print(f"[yellow]#{run.number}: {escape(run.note)}[/]", soft_wrap=True)
                if run.error:
                    console.print(f"[red]#{run.number}: {escape(run.error)}[/]", soft_wrap=True)
            for scaling in ledger.scalings:
                console.print(_scaling_line(scaling), soft_wrap=True)
            console.print(proof(ledger))
        if intervals:
            console.print(_intervals_table(ledger, intervals))
        for failure in ledger.failed_intervals:
            words = f"interval {failure.interval} failed, {failure.tries} times: {failure.error}"
            console.print(f"[red]{escape(words)}[/]", soft_wrap=True)
        console.print()


def _scaling_line(scaling: Scaling) -> str:
    """When the state was moved to another number of shuffle partitions, why, and how that ended."""
    words = f"{_moment(scaling.began.isoformat())} scaled from {scaling.before} to {scaling.after} shuffle partitions"
    pause = f", pause {scaling.pause:.1f} s" if scaling.pause is not None else ""
    failed = f", [red]failed: {escape(scaling.error)}[/]" if scaling.error is not None else ""
    return f"{words} ({escape(scaling.why)}){pause}{failed}{', in progress' if scaling.ended is None else ''}"


def _intervals_table(ledger: Ledger, intervals: list[Entry]) -> Table:
    """The latest run of each interval: input, output and duration."""
    shown = listing("interval from", "to", "run at", "why", "read", right=("rows", "seconds", "version"))
    shown.title, shown.title_justify = f"{ledger.app}.{ledger.pipeline}, by intervals", "left"
    for entry in intervals:
        read = ", ".join(f"{each.rows:,} of {each.table} v{each.version}" for each in entry.inputs.values())
        shown.add_row(
            entry.interval.start.isoformat(),
            entry.interval.end.isoformat(),
            f"{entry.began:%Y-%m-%d %H:%M:%S}",
            escape(entry.why),
            read,
            f"{entry.rows:,}",
            f"{entry.seconds:.1f}",
            str(entry.version),
        )
    return shown


def proof(ledger: Ledger) -> str:
    """One line: records, gaps, replays and pauses of the whole ledger."""
    records = sum(run.records for run in ledger.runs)
    verdict = (
        "[green]no gap[/]" if ledger.gap == 0 else f"[red]{ledger.gap:,} offsets missing or read twice[/]"
    )
    pauses = [run.pause for run in ledger.runs if run.pause is not None]
    longest = f", longest pause {max(pauses):.1f} s" if pauses else ""
    replayed = f"{'at least ' if ledger.at_least else ''}{ledger.replayed:,} replayed"
    lost = f", [red]{ledger.lost:,} lost and accepted[/]" if ledger.lost else ""
    read = f"{records:,} record{'' if records == 1 else 's'}"
    runs = f"{len(ledger.runs)} run{'' if len(ledger.runs) == 1 else 's'}"
    return f"{read} in {runs}: {verdict}{lost}, {replayed}{longest}"


def show_reports(reports: list[dict[str, Any]]) -> None:
    """Print the gears each pipeline supports, then the reasons and fixes for the others."""
    console = wide_console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("pipeline", "batch", "near-real-time", "real-time", "declared"):
        table.add_column(column)
    for report in reports:
        if report["error"]:
            table.add_row(report["pipeline"], *["[red]error[/]"] * 3, report["declared"])
        else:
            marks = [
                "[green]yes[/]" if verdict["ok"] else "[red]no[/]" for verdict in report["gears"].values()
            ]
            declared = report["chosen_by"] or report["declared"]
            table.add_row(report["pipeline"], *marks, f"{declared} ({report['freshness']})")
    console.print(table)
    for report in reports:
        if report["error"]:
            error = report["error"]
            console.print(
                f"\n[bold]{report['pipeline']}[/]: {escape(error['what'])}  {_place(error)}",
                soft_wrap=True,
            )
            if error["hint"]:
                console.print(f"  hint: {escape(error['hint'])}", soft_wrap=True)
        for warning in report.get("warnings", ()):
            console.print(f"\n[bold]{report['pipeline']}[/]: [yellow]{escape(warning)}[/]", soft_wrap=True)
        shown: set[tuple[str, str]] = set()
        for gear, verdict in report["gears"].items():
            for refusal in verdict["refusals"]:
                if (refusal["what"], refusal["at"]) in shown:
                    continue
                shown.add((refusal["what"], refusal["at"]))
                console.print(
                    f"\n[bold]{report['pipeline']}[/] not in {gear}: {escape(refusal['what'])} ({refusal['operator']})  {refusal['at']}",
                    soft_wrap=True,
                )
                console.print(f"  hint: {escape(refusal['rewrite'])}", soft_wrap=True)


def _place(error: dict[str, Any]) -> str:
    at = (error["file"], error["line"])
    return escape(":".join(str(part) for part in at if part is not None))


def _run_row(run: Run) -> list[str]:
    return [
        str(run.number),
        str(run.gear),
        _moment(run.began.isoformat()),
        _moment(run.ended.isoformat()) if run.ended else "now",
        escape(run.why),
        _read(run),
        _number(run.records),
        _number(run.written),
        _replays(run),
        _number(run.dead + run.invalid),
        _number(run.gap),
        f"{run.pause:.1f} s" if run.pause is not None else "",
    ]


def _replays(run: Run) -> str:
    if run.replayed is None and not run.retried:
        return "–"
    return f"{'≥ ' if run.at_least else ''}{(run.replayed or 0) + run.retried:,}"


def _read(run: Run) -> str:
    """The offsets of its topics and the versions of its tables."""
    versions = [f"{table} v{version}" for table, version in run.tables.items() if table not in run.ends]
    return " ".join(part for part in (_ranges(run.starts, run.ends), *versions) if part)


def _ranges(starts: Offsets, ends: Offsets) -> str:
    return " ".join(
        f"{topic if len(ends) > 1 else ''}{partition}:{starts.get(topic, {}).get(partition, 0)}–{end}"
        for topic, parts in ends.items()
        for partition, end in sorted(parts.items())
    )


def _milliseconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f} ms" if value < 10_000 else f"{value / 1000:.0f} s"


def _moment(text: str) -> str:
    instant = datetime.fromisoformat(text)
    today = instant.date() == datetime.now(UTC).date()
    return f"{instant:%H:%M:%S}" if today else f"{instant:%Y-%m-%d %H:%M}"
