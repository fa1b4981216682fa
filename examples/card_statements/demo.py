"""`gearshift demo card_statements`: the card-statements example from start to end.

A year of transactions, twelve month ends, late corrections, and one month rerun by hand.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from gearshift import settings as configuration
from gearshift import stack as local
from gearshift import tables
from gearshift.app import App
from gearshift.cli.listing import table
from gearshift.pipelines.intervals.selection import survey_intervals
from gearshift.pipelines.intervals.states import State, Status
from gearshift.runner.loading import load_app
from gearshift.schemas import Registry
from gearshift.settings import Settings
from gearshift.topics import Admin, Producer

HERE = Path(__file__).parent
APP = HERE / "card_statements.py"
sys.path[:0] = [str(HERE), str(HERE.parent)]
from simulator import CardTransaction, corrections, months, year  # noqa: E402  (a module of this folder)

from demos import console, empty, gearshift, run_demo, wait  # noqa: E402  (what the demos share)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--folder", type=Path, default=Path(".gearshift") / "demo-cards", help="the demo's data folder"
    )
    folder = options.parse_args().folder
    return run_demo(lambda: chapters(configuration.load({"home": empty(folder)})))


def report(message: str) -> None:
    console.print(f"  [dim]{message}[/]")


def chapters(settings: Settings) -> None:
    """Run the demo, chapter by chapter."""
    console.rule("[bold]Gearshift: batch on a calendar")
    from gearshift.runner.runner import Runner  # imports Spark

    app = load_app(APP)
    now = datetime.now(UTC)
    month = months(now)[2]
    with local.up(settings, progress=report):
        console.print("\n[bold]1. A year of transactions arrives[/]")
        # Before anything runs: rows that arrive after the run of their month are late.
        sent = send(app, settings, year(now))
        console.print(f"  {sent:,} transactions of 40 cards")
        console.print("\n[bold]2. Twelve month ends:[/] the scheduler catches up, one run per month")
        with Runner(app, settings, file=APP, progress=report):
            wait(lambda: settled(app, settings, sent), "the statements of twelve months", every=1)
            show_months(settings)
            console.print(f"\n[bold]3. Corrections of {month:%B %Y} arrive late[/]")
            before = tables.read_paths(f"{settings.warehouse_uri}/statements").version
            new = send(app, settings, corrections(now)) - 3  # the other three replace existing rows
            wait(lambda: settled(app, settings, sent + new), "the statements of that month", every=1)
            show_corrected(settings, before, f"{month:%Y-%m}")
    # Everything is stopped: intervals read tables, so they need neither Kafka nor a runner.
    [closed] = of_state(app, settings, "monthly_spending", State.TOO_LATE)
    console.print(
        f"\n[bold]4. Spending of that month was closed:[/] {closed.late_rows} late rows were reported but not used; "
        "rerun it by hand"
    )
    period = ("--from", closed.interval.key, "--to", closed.interval.end.isoformat())
    gearshift("batch", "run", os.path.relpath(APP), "monthly_spending", *period, home=settings.home)
    assert not of_state(app, settings, "monthly_spending", State.TOO_LATE)
    [(total,)] = tables.sql(settings.warehouse_uri, "select sum(amount) from spending").rows
    [(owed,)] = tables.sql(settings.warehouse_uri, "select sum(purchases - refunds) from statements").rows
    console.print(f"  all statements: € {owed}, all spending: € {total}")


def send(app: App, settings: Settings, values: list[CardTransaction]) -> int:
    """Send transactions to the topic."""
    topic, connection = app.graph.topics["card-transactions"], local.connect(settings)
    Admin(connection).ensure([topic])
    with Registry(connection) as registry:
        registry.register(topic)
    with Producer(connection) as producer:
        for value in values:
            producer.send(topic, value)
    return len(values)


def settled(app: App, settings: Settings, rows: int) -> bool:
    """Whether all transactions are stored and no month is left to run."""
    uri = f"{settings.warehouse_uri}/transactions"
    if not tables.exists(uri) or tables.read_paths(uri).rows < rows:
        return False
    return not any(
        of_state(app, settings, name, State.DUE, State.LATE)
        for name in ("monthly_statements", "monthly_spending")
    )


def of_state(app: App, settings: Settings, pipeline: str, *states: State) -> list[Status]:
    """The months in the given states."""
    seen = survey_intervals(app, settings, app.graph.pipelines[pipeline], datetime.now(UTC))
    return seen.of(*states) if seen is not None else []


def show_months(settings: Settings) -> None:
    """Show each month's statements, read with DuckDB."""
    shown = table("month", right=("statements", "purchases", "refunds", "fees", "total"))
    query = (
        "select month, count(*), sum(purchases), sum(refunds), sum(fees), sum(total) "
        "from statements group by month order by month"
    )
    for month, *numbers in tables.sql(settings.warehouse_uri, query).rows:
        shown.add_row(month, *(f"{number:,}" for number in numbers))
    console.print(shown)


def show_corrected(settings: Settings, before: int, month: str) -> None:
    """Show the statements of a month that have changed."""
    query = (
        f"select card, old.total, new.total from statements new join statements@v{before} old "
        f"using (card, month) where month = '{month}' and old.total <> new.total order by card"
    )
    for card, old, new in tables.sql(settings.warehouse_uri, query).rows:
        console.print(f"  {card}: € {old} is now € {new}")


if __name__ == "__main__":
    sys.exit(main())
