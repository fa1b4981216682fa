"""`make demo-food`: the food-delivery story from an empty machine, in about two minutes, ending by itself.

It starts the app's database and all the rest, lets the app do two days of business, prints what the kitchens see,
who is late, where the minutes go and what was earned, and holds every number against the database's own.
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
from threading import Thread
from typing import TYPE_CHECKING, Any

from cassandra import InvalidRequest
from cassandra.cluster import NoHostAvailable

from gearshift import settings as configuration
from gearshift import stack as local
from gearshift.cli.listing import table
from gearshift.cli.tables import status_table
from gearshift.destinations.cassandra_driver import ContactPoints, connect
from gearshift.errors import GearshiftError
from gearshift.freshness import Gear

if TYPE_CHECKING:
    from gearshift.runner.runner import Runner
    from gearshift.settings import Settings

HERE = Path(__file__).parent
APP = HERE / "food_delivery.py"
sys.path[:0] = [str(HERE), str(HERE.parent)]
import shop  # noqa: E402  (modules of this folder)
import truth  # noqa: E402

from telling import console, empty, gearshift, tell, wait  # noqa: E402  (what the demos share)

REVENUE = """select restaurant, sum(orders) as orders, sum(revenue) as revenue,
       bar(sum(revenue), 0, max(sum(revenue)) over (), 40) as chart
from daily_revenue group by restaurant order by revenue desc"""
STAGES = """select stage, round(avg(minutes), 1) as minutes, bar(avg(minutes), 0, 20, 40) as chart
from stage_minutes group by stage order by min(case stage when 'placed' then 1 when 'cooking' then 2
    when 'ready' then 3 else 4 end)"""
BEST = "select day, restaurant, dish, sold from best_sellers where place = 1 order by day, restaurant"


class Kitchens:
    """The screens in the kitchens: they ask Cassandra, and nobody else."""

    def __init__(self, contact_points: str) -> None:
        self.latencies: list[float] = []
        self._cluster, self._session = connect(ContactPoints.read(contact_points), name="kitchens")
        self._open = False
        self._looking = Thread()

    def close(self) -> None:
        self._cluster.shutdown()

    def ask(self, cql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """The rows; none while the table is not there, or is just being made for the first of them."""
        try:
            return list(self._session.execute(cql, values))
        except (InvalidRequest, NoHostAvailable):
            return []

    def expect(self, restaurant: str, order: int) -> None:
        """See how long it takes until an order is on the screen; one at a time."""
        if not self._open:
            # The app waits for the first one: until then all the others are still on their way to work.
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
    options.add_argument("--orders", type=int, default=400, help="how many orders the two days bring")
    options.add_argument("--factor", type=float, default=2000, help="the app's seconds in one of ours")
    options.add_argument(
        "--folder", type=Path, default=Path(".gearshift") / "demo-food", help="where it keeps its data"
    )
    chosen = options.parse_args()

    def story() -> None:
        console.rule("[bold]Gearshift: one database, three promises")
        settings = configuration.load({"home": empty(chosen.folder), "checkpoint_interval": "10 seconds"})
        with running(settings) as (runner, dsn, kitchens):
            tell_of(runner, dsn, kitchens, orders=chosen.orders, factor=chosen.factor)

    return tell(story)


@contextmanager
def running(settings: Settings) -> Generator[tuple[Runner, str, Kitchens]]:
    """The app's database with its tables, and beside it everything that the story runs."""
    # The app's days pass in seconds: the story says when they are over, and not the calendar.
    settings = settings.model_copy(update={"scheduler": False})

    def said(words: str) -> None:
        console.print(f"  [dim]{words}[/]")
        if words == "postgres answers":  # long before the others do: the app has its tables before they look
            shop.create(local.find_service("postgres", settings).get_secret_value())

    from gearshift.runner.loading import load_app
    from gearshift.runner.runner import Runner

    with Runner(load_app(APP), settings, file=APP, said=said) as runner:
        kitchens = Kitchens(runner.stack.address("cassandra"))
        try:
            yield runner, runner.stack.address("postgres"), kitchens
        finally:
            kitchens.close()


def tell_of(runner: Runner, dsn: str, kitchens: Kitchens, *, orders: int, factor: float) -> None:
    """The chapters."""
    console.print("\n[bold]1. Real-time:[/] from the app's database to the kitchens' screens")
    with shop.Shop(dsn, orders=orders, factor=factor, on_order=kitchens.expect) as app:
        wait(lambda: app.error or kitchens.ask(truth.IN_CASSANDRA["open orders"]), "an order")
        shown = time.monotonic() + 5
        while not app.closed and app.error is None:
            if time.monotonic() > shown:
                show_screens(kitchens, app)
                shown = time.monotonic() + 12
            time.sleep(0.05)
        if app.error is not None:
            raise GearshiftError(f"the food app ended: {app.error}")
    for what in truth.IN_CASSANDRA:
        wait(lambda what=what: equal(runner, dsn, kitchens, what), f"what PostgreSQL has as {what}")
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
    wait(
        lambda: equal(runner, dsn, kitchens, "minutes per stage"), "what PostgreSQL has as minutes per stage"
    )
    home = runner.settings.home
    gearshift("table", "sql", STAGES, home=home)

    console.print("[bold]4. The daily batch:[/] both days are over, and each is an interval")
    runner.shift("keep_orders", Gear.BATCH)  # everything the app has done by now
    for pipeline in ("sum_revenue", "rank_dishes"):
        runner.shift(pipeline, Gear.BATCH)
    gearshift("batch", "list", os.path.relpath(APP), home=home)
    gearshift("table", "sql", REVENUE, home=home)
    gearshift("table", "sql", BEST, home=home)

    console.print("[bold]5. The proof:[/] every number beside the one that PostgreSQL computes")
    for what in truth.TRUTH:
        rows = truth.must_be(dsn, what)
        if not equal(runner, dsn, kitchens, what):
            raise GearshiftError(f"{what} are not what PostgreSQL says")
        console.print(f"  {what}: {len(rows)} of {len(rows)} rows are the same")
    console.print(status_table(runner.status()))


def equal(runner: Runner, dsn: str, kitchens: Kitchens, what: str) -> bool:
    """Whether the stores have what the app's database says."""
    return truth.found(what, kitchens.ask, runner.settings.warehouse_uri) == truth.must_be(dsn, what)


def show_screens(kitchens: Kitchens, app: shop.Shop) -> None:
    """Each restaurant's open orders by how far they are."""
    found = Counter((row.restaurant, row.status) for row in kitchens.ask(truth.IN_CASSANDRA["open orders"]))
    clock = app.events[min(app.done, len(app.events) - 1)].at
    shown = table(f"  {clock:%a %H:%M}", right=list(shop.STAGES))
    for restaurant in shop.MENUS:
        shown.add_row(f"  {restaurant}", *(str(found[restaurant, status] or "·") for status in shop.STAGES))
    console.print(shown)


if __name__ == "__main__":
    sys.exit(main())
