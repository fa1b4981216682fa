"""`gearshift demo food_delivery`: the food-delivery example from an empty machine, in about two minutes.

It starts the shop's database and everything else, simulates two days of business, prints the kitchens' screens, late
orders, minutes per stage and revenue, and compares every number with the one computed by the database.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from cassandra import InvalidRequest
from cassandra.cluster import NoHostAvailable

from gearshift import settings as configuration
from gearshift import stack as local
from gearshift.cli.listing import table
from gearshift.cli.tables import status_table
from gearshift.destinations.cassandra.driver import ContactPoints, connect
from gearshift.errors import GearshiftError
from gearshift.freshness import Gear

if TYPE_CHECKING:
    from gearshift.runner.runner import Runner
    from gearshift.settings import Settings

HERE = Path(__file__).parent
APP = HERE / "food_delivery.py"
sys.path[:0] = [str(HERE), str(HERE.parent)]
import simulator  # noqa: E402  (modules of this folder)
import truth  # noqa: E402

from demos import console, empty, gearshift, run_demo, wait  # noqa: E402  (what the demos share)

REVENUE = """select restaurant, sum(orders) as orders, sum(revenue) as revenue,
       bar(sum(revenue), 0, max(sum(revenue)) over (), 40) as chart
from daily_revenue group by restaurant order by revenue desc"""
STAGES = """select stage, round(avg(minutes), 1) as minutes, bar(avg(minutes), 0, 20, 40) as chart
from stage_minutes group by stage order by min(case stage when 'placed' then 1 when 'cooking' then 2
    when 'ready' then 3 else 4 end)"""
BEST = "select day, restaurant, dish, sold from best_sellers where place = 1 order by day, restaurant"


class Kitchens:
    """The screens in the kitchens, which only query Cassandra."""

    def __init__(self, contact_points: str) -> None:
        self.latencies: list[float] = []
        self._cluster, self._session = connect(ContactPoints.read(contact_points), name="kitchens")
        self._open = False
        self._looking = Thread()

    def close(self) -> None:
        self._cluster.shutdown()

    def ask(self, cql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """The rows; none while the table does not exist or is being created."""
        try:
            return list(self._session.execute(cql, values))
        except (InvalidRequest, NoHostAvailable):
            return []

    def expect(self, restaurant: str, order: int) -> None:
        """Measure how long it takes until an order is on the screen; one at a time."""
        if not self._open:
            # Block for the first order, until everything is up.
            self._open = self._look(restaurant, order, within=90)
        elif not self._looking.is_alive():
            self._looking = Thread(target=self._measure, args=(restaurant, order), daemon=True)
            self._looking.start()

    def _measure(self, restaurant: str, order: int) -> None:
        since = time.monotonic()
        if self._look(restaurant, order, within=10):
            self.latencies.append((time.monotonic() - since) * 1000)

    def _look(self, restaurant: str, order: int, within: float) -> bool:
        cql = "SELECT order_id FROM food.open_orders WHERE restaurant = %s AND order_id = %s"
        until = time.monotonic() + within
        while not (found := self.ask(cql, (restaurant, order))) and time.monotonic() < until:
            time.sleep(0.005)
        return bool(found)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--orders", type=int, default=400, help="how many orders to simulate")
    options.add_argument("--factor", type=float, default=2000, help="simulated seconds per second")
    options.add_argument(
        "--folder", type=Path, default=Path(".gearshift") / "demo-food", help="the demo's data folder"
    )
    options.add_argument("--keep", action="store_true", help="leave the app running until Ctrl-C")
    chosen = options.parse_args()

    def story() -> None:
        console.rule("[bold]Gearshift: one database, three promises")
        settings = configuration.load({"home": empty(chosen.folder), "checkpoint_interval": "10 seconds"})
        with running(settings) as (runner, dsn, kitchens):
            chapters(runner, dsn, kitchens, orders=chosen.orders, factor=chosen.factor)
            if chosen.keep:
                console.print(
                    f"\nIt keeps running: GEARSHIFT_HOME={settings.home} gearshift status; Ctrl-C to stop"
                )
                Event().wait()

    return run_demo(story)


@contextmanager
def running(settings: Settings) -> Generator[tuple[Runner, str, Kitchens]]:
    """Start the shop's database with its tables, and everything else that the demo runs."""
    # Simulated days pass in seconds, so the demo runs the batches instead of the calendar.
    settings = settings.model_copy(update={"scheduler": False})

    def report(message: str) -> None:
        console.print(f"  [dim]{message}[/]")
        if message == "postgres is ready":  # before the other services start, which need the tables
            simulator.create(local.find_service("postgres", settings).get_secret_value())

    from gearshift.runner.loading import load_app
    from gearshift.runner.runner import Runner

    with Runner(load_app(APP), settings, file=APP, progress=report) as runner:
        kitchens = Kitchens(runner.stack.address("cassandra"))
        try:
            yield runner, runner.stack.address("postgres"), kitchens
        finally:
            kitchens.close()


def chapters(runner: Runner, dsn: str, kitchens: Kitchens, *, orders: int, factor: float) -> None:
    """Run the demo, chapter by chapter."""
    console.print("\n[bold]1. Real-time:[/] from the app's database to the kitchens' screens")
    with simulator.Shop(dsn, orders=orders, factor=factor, on_order=kitchens.expect) as app:
        wait(lambda: app.error or kitchens.ask(truth.IN_CASSANDRA["open orders"]), "an order")
        shown = time.monotonic() + 5
        while not app.closed and app.error is None:
            if time.monotonic() > shown:
                show_screens(kitchens, app)
                shown = time.monotonic() + 12
            time.sleep(0.05)
        if app.error is not None:
            raise GearshiftError(f"the shop failed: {app.error}")
    for what in truth.IN_CASSANDRA:
        wait(lambda what=what: equal(runner, dsn, kitchens, what), f"{what} as in PostgreSQL")
    show_screens(kitchens, app)
    if kitchens.latencies:
        console.print(
            f"  from the commit in PostgreSQL to the screen: {median(kitchens.latencies):.0f} ms"
            f" (median of {len(kitchens.latencies)})"
        )
    late = kitchens.ask("SELECT restaurant, order_id, status, minutes_late, at FROM food.late_orders")
    console.print(f"\n[bold]2. Late orders:[/] {len(late)}, the last of them")
    for order in sorted(late, key=lambda row: row.at)[-3:]:
        console.print(
            f"  [yellow]{order.restaurant}[/], order {order.order_id}: {order.minutes_late} min late, {order.status}"
        )

    console.print("\n[bold]3. Near-real-time:[/] where the minutes go")
    wait(lambda: equal(runner, dsn, kitchens, "minutes per stage"), "minutes per stage as in PostgreSQL")
    home = runner.settings.home
    gearshift("table", "sql", STAGES, home=home)

    console.print("[bold]4. The daily batch:[/] both days are over, and each is an interval")
    runner.shift("keep_orders", Gear.BATCH)  # all changes up to now
    for pipeline in ("sum_revenue", "rank_dishes"):
        runner.shift(pipeline, Gear.BATCH)
    gearshift("batch", "list", os.path.relpath(APP), home=home)
    gearshift("table", "sql", REVENUE, home=home)
    gearshift("table", "sql", BEST, home=home)

    console.print("[bold]5. The proof:[/] every number compared with the one that PostgreSQL computes")
    for what in truth.TRUTH:
        rows = truth.must_be(dsn, what)
        if not equal(runner, dsn, kitchens, what):
            raise GearshiftError(f"{what} differ from PostgreSQL")
        console.print(f"  {what}: {len(rows)} of {len(rows)} rows are the same")
    console.print(status_table(runner.status()))


def equal(runner: Runner, dsn: str, kitchens: Kitchens, what: str) -> bool:
    """Whether the stores match the shop's database."""
    return truth.found(what, kitchens.ask, runner.settings.warehouse_uri) == truth.must_be(dsn, what)


def show_screens(kitchens: Kitchens, app: simulator.Shop) -> None:
    """Show each restaurant's open orders by status."""
    found = Counter((row.restaurant, row.status) for row in kitchens.ask(truth.IN_CASSANDRA["open orders"]))
    clock = app.events[min(app.done, len(app.events) - 1)].at
    shown = table(f"  {clock:%a %H:%M}", right=list(simulator.STAGES))
    for restaurant in simulator.MENUS:
        shown.add_row(
            f"  {restaurant}", *(str(found[restaurant, status] or "·") for status in simulator.STAGES)
        )
    console.print(shown)


if __name__ == "__main__":
    sys.exit(main())
