"""`make demo-cards`: the card-statements story in one command, ending by itself.

A year of transactions, twelve month ends, corrections that come late, and one month run again by hand.
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
from gearshift.pipelines.interval_states import State, Status
from gearshift.runner.intervals import look_at
from gearshift.runner.loading import load_app
from gearshift.schemas import Registry
from gearshift.settings import Settings
from gearshift.topics import Admin, Producer

HERE = Path(__file__).parent
APP = HERE / "card_statements.py"
sys.path[:0] = [str(HERE), str(HERE.parent)]
from issuer import CardTransaction, corrections, months, year  # noqa: E402  (a module of this folder)

from telling import console, empty, gearshift, tell, wait  # noqa: E402  (what the demos share)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--folder", type=Path, default=Path(".gearshift") / "demo-cards", help="where it keeps its data"
    )
    folder = options.parse_args().folder
    return tell(lambda: tell_of(configuration.load({"home": empty(folder)})))


def said(words: str) -> None:
    console.print(f"  [dim]{words}[/]")


def tell_of(settings: Settings) -> None:
    """The chapters."""
    console.rule("[bold]Gearshift: batch on a calendar")
    from gearshift.runner.runner import Runner  # here, for it brings Spark along

    app = load_app(APP)
    now = datetime.now(UTC)
    month = months(now)[2]
    with local.up(settings, progress=said):
        console.print("\n[bold]1. A year of transactions arrives[/]")
        # Before anything runs: what comes when a month has been run is late.
        sent = send(app, settings, year(now))
        console.print(f"  {sent:,} transactions of 40 cards")
        console.print("\n[bold]2. Twelve month ends:[/] the scheduler catches up, one run a month")
        with Runner(app, settings, file=APP, said=said):
            wait(lambda: settled(app, settings, sent), "the statements of twelve months", every=1)
            show_months(settings)
            console.print(f"\n[bold]3. Corrections of {month:%B %Y} come late[/]")
            before = tables.read_paths(f"{settings.warehouse_uri}/statements").version
            new = send(app, settings, corrections(now)) - 3  # the others correct what is there
            wait(lambda: settled(app, settings, sent + new), "the statements of that month", every=1)
            show_corrected(settings, before, f"{month:%Y-%m}")
    # Nothing runs any more, and nothing has to: intervals are cut from tables.
    [closed] = of_state(app, settings, "monthly_spending", State.TOO_LATE)
    console.print(
        f"\n[bold]4. Spending of that month was closed:[/] {closed.late_rows} late rows, told and not taken; "
        "a person runs it again"
    )
    period = ("--from", closed.interval.key, "--to", closed.interval.end.isoformat())
    gearshift("batch", "run", os.path.relpath(APP), "monthly_spending", *period, home=settings.home)
    assert not of_state(app, settings, "monthly_spending", State.TOO_LATE)
    [(total,)] = tables.sql(settings.warehouse_uri, "select sum(amount) from spending").rows
    [(owed,)] = tables.sql(settings.warehouse_uri, "select sum(purchases - refunds) from statements").rows
    console.print(f"  all statements: € {owed}, all spending: € {total}")


def send(app: App, settings: Settings, values: list[CardTransaction]) -> int:
    """Put transactions on the topic."""
    topic, connection = app.graph.topics["card-transactions"], local.connect(settings)
    Admin(connection).ensure([topic])
    with Registry(connection) as registry:
        registry.register(topic)
    with Producer(connection) as producer:
        for value in values:
            producer.send(topic, value)
    return len(values)


def settled(app: App, settings: Settings, rows: int) -> bool:
    """Whether all transactions are kept and no month is left to run."""
    uri = f"{settings.warehouse_uri}/transactions"
    if not tables.exists(uri) or tables.read_paths(uri).rows < rows:
        return False
    return not any(
        of_state(app, settings, name, State.DUE, State.LATE)
        for name in ("monthly_statements", "monthly_spending")
    )


def of_state(app: App, settings: Settings, pipeline: str, *states: State) -> list[Status]:
    """The months in a state."""
    seen = look_at(app, settings, app.graph.pipelines[pipeline], datetime.now(UTC))
    return seen.of(*states) if seen is not None else []


def show_months(settings: Settings) -> None:
    """Each month's statements, read by DuckDB."""
    shown = table("month", right=("statements", "purchases", "refunds", "fees", "total"))
    query = (
        "select month, count(*), sum(purchases), sum(refunds), sum(fees), sum(total) "
        "from statements group by month order by month"
    )
    for month, *numbers in tables.sql(settings.warehouse_uri, query).rows:
        shown.add_row(month, *(f"{number:,}" for number in numbers))
    console.print(shown)


def show_corrected(settings: Settings, before: int, month: str) -> None:
    """The statements of a month that are not what they were."""
    query = (
        f"select card, old.total, new.total from statements new join statements@v{before} old "
        f"using (card, month) where month = '{month}' and old.total <> new.total order by card"
    )
    for card, old, new in tables.sql(settings.warehouse_uri, query).rows:
        console.print(f"  {card}: € {old} is now € {new}")


if __name__ == "__main__":
    sys.exit(main())
