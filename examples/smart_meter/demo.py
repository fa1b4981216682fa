"""`make demo`: the smart-meter example from an empty machine, in under three minutes.

It prints the first alerts with their latency, shifts the alert pipeline through all gears while
readings flow, and prints the ledger and the bills. `--keep` leaves the app running.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich.table import Table

from gearshift import settings as configuration
from gearshift import tables
from gearshift.cli.tables import proof, show_ledgers, status_table
from gearshift.connection import Connection
from gearshift.freshness import Gear
from gearshift.schemas import Decoder, Registry
from gearshift.topics import tail

if TYPE_CHECKING:
    from gearshift.runner.runner import Runner

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from gateway import Gateway, Message  # noqa: E402  (a module of this folder)

from demos import console, run_demo, wait  # noqa: E402  (what the demos share)


class Phones:
    """The owners' phones. They also read the readings topic, to know when each reading was sent."""

    def __init__(self, connection: Connection, gateway: Gateway) -> None:
        self.latencies: list[float] = []
        self._connection = connection
        self._gateway = gateway
        self._sent: dict[str, datetime] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Phones:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join(10)

    def _listen(self) -> None:
        from smart_meter import readings

        read = 0
        with (
            Registry(self._connection) as registry,
            tail(self._connection, [readings.name], from_beginning=True) as inbox,
        ):
            decode = Decoder(readings, registry)
            while not self._closing.is_set():
                for record in inbox.poll(timedelta(milliseconds=20)):
                    value = decode(record.value)
                    if record.timestamp is not None:
                        self._sent[f"{value.meter_id} {value.read_at:%Y-%m-%d %H:%M}"] = record.timestamp
                messages = self._gateway.messages
                for message in messages[read:]:
                    self._take(message)
                read = len(messages)

    def _take(self, message: Message) -> None:
        meter, words = message.text.split(": ")
        sent = self._sent.get(f"{meter} {words.partition(' at ')[2]}")
        if sent is not None:
            self.latencies.append((message.received_at - sent).total_seconds() * 1000)
            if len(self.latencies) <= 3:
                console.print(
                    f"  [yellow]SMS[/] to {message.to}: {message.text}  "
                    f"[dim]({self.latencies[-1]:.0f} ms after the meter sent it)[/]"
                )


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--keep", action="store_true", help="leave the app running until Ctrl-C")
    options.add_argument(
        "--folder", type=Path, default=Path(".gearshift") / "demo", help="the demo's data folder"
    )
    chosen = options.parse_args()
    return run_demo(lambda: story(chosen.folder, keep=chosen.keep))


def story(folder: Path, *, keep: bool) -> None:
    """Start everything, then run the chapters."""
    settings = configuration.load({"home": folder.absolute(), "checkpoint_interval": "6 seconds"})
    console.rule("[bold]Gearshift: one stream of meter readings, three promises")
    from gearshift.runner.loading import load_app

    with Gateway() as gateway:
        os.environ["SMS_URL"] = gateway.url
        app = load_app(HERE / "smart_meter.py")
        from gearshift.runner.runner import Runner

        with Runner(
            app,
            settings,
            file=HERE / "smart_meter.py",
            progress=lambda message: console.print(f"  [dim]{message}[/]"),
        ) as runner:
            chapters(runner, gateway, folder, keep=keep)


def chapters(runner: Runner, gateway: Gateway, folder: Path, *, keep: bool) -> None:
    """Run the demo, chapter by chapter."""
    supervisor = runner.supervisors["load_alerts"]
    with Phones(runner.context.connection, gateway) as phones:
        console.print("\n[bold]1. Real-time:[/] a load above 2 kW reaches the owner")
        wait(lambda: len(phones.latencies) >= 3, "an alert")
        # the first ones are slow, while Spark compiles its code
        wait(lambda: len(phones.latencies) >= 30, "thirty alerts")
        before = len(phones.latencies)
        wait(lambda: len(phones.latencies) >= before + 20, "twenty more alerts")
        console.print(
            f"  the next twenty: {median(phones.latencies[before:]):.0f} ms, from the meter to the phone (median)"
        )

        console.print(
            "\n[bold]2. The shift:[/] the same pipeline, live, through every gear, while readings flow"
        )
        for gear in (Gear.NEAR_REAL_TIME, Gear.BATCH, Gear.NEAR_REAL_TIME, Gear.REAL_TIME):
            done = runner.shift("load_alerts", gear)
            console.print(
                f"  {done.before} → [bold]{done.after}[/]: waited {done.waited:.1f} s for the batch to end, "
                f"pause {done.pause:.1f} s, {done.replayed} records replayed"
            )

        console.print("\n[bold]3. The proof:[/] what ran over which offsets")
        show_ledgers([supervisor.ledger])

        console.print("[bold]4. The bills:[/] a batch over the history, as exact decimals")
        runner.shift("keep_history", Gear.BATCH)
        runner.shift("monthly_bills", Gear.BATCH)
        show_bills(runner.settings.warehouse_uri)

        console.print("\n[bold]Summary[/]")
        console.print(status_table(runner.status()))
        console.print(f"  load_alerts: {proof(supervisor.ledger)}")
        console.print(f"  {texts(gateway)}")
        if keep:
            console.print(
                f"\nIt keeps running: try [bold]GEARSHIFT_HOME={folder} gearshift status[/]. Press Ctrl-C to stop."
            )
            threading.Event().wait()


def texts(gateway: Gateway) -> str:
    """The number of text messages, and how many were duplicates."""
    sent = [(message.to, message.text) for message in gateway.messages]
    return f"{len(sent):,} text messages, {len(sent) - len(set(sent))} of them sent twice"


def show_bills(warehouse: str) -> None:
    """Show the highest bills, read with DuckDB."""
    answer = tables.sql(
        warehouse,
        "select month, meter_id, kwh, amount, readings from monthly_bills order by amount desc, meter_id limit 5",
    )
    table = Table(box=None, pad_edge=True, header_style="bold")
    for column in ("month", "meter", "kWh", "amount", "readings"):
        table.add_column(column, justify="left" if column in ("month", "meter") else "right")
    for month, meter, kwh, amount, readings in answer.rows:
        table.add_row(month, meter, f"{kwh:.3f}", f"€ {amount}", f"{readings:,}")
    console.print(table)
    [(bills, total)] = tables.sql(warehouse, "select count(*), sum(amount) from monthly_bills").rows
    console.print(f"  {bills} bills, € {total} in all")


if __name__ == "__main__":
    sys.exit(main())
