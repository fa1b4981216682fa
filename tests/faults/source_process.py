"""A source in a process of its own: `python -m tests.faults.source_process KIND NAME FOLDER [POINT]`.

It kills itself at a named point of a transaction: `sent`, when the records are sent and not committed, or
`committed`, when they are and nobody has acted on it. Without a point it runs until it is killed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random

import gearshift as gs
from gearshift.settings import load
from gearshift.sources import Files, Http, Simulator
from gearshift.topics import MarkedTransactions

PORT_FILE = "port"


@dataclass
class Order:
    order_id: int
    city: str


@dataclass
class Declared:
    app: gs.App
    orders: gs.Topic


def declare(name: str, folder: Path) -> Declared:
    """An app with one source of each kind."""
    app = gs.App(name)
    orders = app.topic(f"{name}-orders", value=Order, key="order_id", partitions=2)
    app.files("orders-in", folder=folder / "in", to=orders, format="csv", quiet="100 milliseconds")
    app.http(topics=[orders], port=0)

    @app.source(to=orders, rate=2_000, seed=7, out_of_order=0.1, max_delay="1 second")
    def simulated(chance: Random) -> Iterator[Order]:
        for number in count():
            yield Order(number, chance.choice(["Ghent", "Bruges"]))

    return Declared(app, orders)


def die() -> None:
    """`kill -9` of this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(point: str) -> None:
    """Let the second transaction be the last."""
    commit = MarkedTransactions.commit
    commits = 0

    def dying(transactions: MarkedTransactions) -> None:
        nonlocal commits
        commits += 1
        if commits == 2 and point == "sent":
            transactions._producer._producer.flush(30)  # on the brokers, and not committed
            die()
        commit(transactions)
        if commits == 2:
            die()

    MarkedTransactions.commit = dying


def main(kind: str, name: str, folder: Path, point: str | None) -> None:
    settings = load()
    declared, connection = declare(name, folder), gs.connect(settings)
    graph = declared.app.graph
    if point is not None:
        die_at(point)
    if kind == "files":
        Files(graph.file_sources["orders-in"], connection).open()
    elif kind == "http":
        running = Http(graph.http_sources["http"], connection)
        running.open()
        (folder / f".{PORT_FILE}").write_text(str(running.port))
        (folder / f".{PORT_FILE}").rename(folder / PORT_FILE)
    else:
        Simulator(graph.sources["simulated"], connection).open()
    threading.Event().wait(300)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else None)
