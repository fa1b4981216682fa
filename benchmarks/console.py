"""What five open pages of the console cost, on a large app and a large cluster, on one machine, in one run.

The server is a process of its own, so that nothing else counts as its cost. It has a real Kafka with many topics, one
of which takes records at a steady rate, and an app of 20 pipelines whose status it makes up: it changes every second.
Five pages are open in one Chromium: overview, pipeline, topics, the busy topic with its tail, and groups. First the
server runs without pages, then with them; the pages are measured after a minute and at the end (`--soak 60` for an
hour). What the pages cost real pipelines is not measured here. Results go to benchmarks/results/ and to a table.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console as Terminal
from rich.table import Table

import gearshift as gs
from gearshift import stack as local
from gearshift.connection import Connection
from gearshift.console.alerts import Alerts
from gearshift.console.console import Console, Emit
from gearshift.console.live import Live
from gearshift.console.server import ConsoleServer
from gearshift.definitions import Location, Topic
from gearshift.schemas import Registry
from gearshift.settings import load
from gearshift.topics import Admin, GroupOffsets, Producer
from gearshift.topics.encoders import Encoders

HERE = Path(__file__).parent
BUSY = "numbers-0"
PARTITIONS = 5
PAGES = {
    "/": "pipeline_19",
    "/pipelines/pipeline_0": "triggerExecution",
    "/topics": "results-1",
    f"/topics/{BUSY}": "5 partitions",
    "/groups": "readers-1",
}
"""The pages that are open, and words that each shows once it has its data."""
LIMITS = {
    "first_page_seconds": 1.0,
    "busy_share": 0.30,
    "server_share": 0.10,
    "server_growth_mb": 150.0,
}
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SPAWN = multiprocessing.get_context("spawn")

# Notes when all pipelines have been shown for the first time.
WATCH_FIRST = """
window.firstShown = new Promise((resolve) => {
  new MutationObserver((_, observer) => {
    if (document.querySelectorAll("tbody tr").length < 20) return;
    resolve(performance.now());
    observer.disconnect();
  }).observe(document, { subtree: true, childList: true });
});
"""
# How often the page got an answer in the last seconds; streams do not end, and so do not count.
COUNT_ANSWERS = """
(seconds) => performance.getEntriesByType("resource").filter(
  (each) => each.name.includes("/api/") && each.responseEnd > performance.now() - seconds * 1000
).length
"""
# Counts the frames in which something on the page changed.
COUNT_UPDATES = """
(seconds) => new Promise((resolve) => {
  let frames = 0, waiting = false;
  const observer = new MutationObserver(() => {
    if (waiting) return;
    waiting = true;
    frames += 1;
    requestAnimationFrame(() => (waiting = false));
  });
  observer.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
  setTimeout(() => { observer.disconnect(); resolve(frames / seconds); }, seconds * 1000);
})
"""


@dataclass
class Number:
    key: str
    value: int
    at: datetime


class MadeUp:
    """A running app whose numbers change, without Spark."""

    def __init__(self, pipelines: int) -> None:
        self.app = gs.App("large", timezone="Europe/Berlin")
        for number in range(pipelines):
            self._declare(number)
        self._chance = random.Random(16)

    def _declare(self, number: int) -> None:
        source = self.app.topic(f"numbers-{number}", value=Number, key="key", partitions=PARTITIONS)
        target = self.app.topic(f"results-{number}", value=Number, key="key", partitions=PARTITIONS)

        def work_out(numbers: Any) -> Any:
            return numbers

        work_out.__name__ = f"pipeline_{number}"
        self.app.pipeline(source, to=target, freshness="10 seconds")(work_out)

    def status(self) -> dict[str, Any]:
        return {
            "app": self.app.name,
            "pipelines": [self._pipeline(name) for name in self.app.graph.pipelines],
            "deliveries": [],
            "captures": [],
            "sources": [],
            "topics": [
                {"name": name, "records": self._count(10**6), "records_per_second": self._count(5000)}
                for name in self.app.graph.topics
            ],
        }

    def _count(self, most: int) -> int:
        return self._chance.randrange(most)

    def _pipeline(self, name: str) -> dict[str, Any]:
        zero = ("dead_letters", "dead_letters_pending", "dead_letters_lost", "replayed", "late_rows", "gap")
        return {
            "name": name,
            "gear": "near-real-time",
            "declared": "near-real-time",
            "chosen_by": "freshness",
            "held_until": None,
            "freshness": "10 seconds",
            "freshness_seconds": 10.0,
            "state": "running",
            "error": None,
            "warning": None,
            "records_per_second": self._count(5000),
            "written_per_second": self._count(5000),
            "batch_records_per_second": self._count(9000),
            "lag": self._count(20_000),
            "latency_p50_ms": self._count(4000),
            "latency_p99_ms": 4000 + self._count(5000),
            "records": self._count(10**7),
            "written": self._count(10**7),
            **dict.fromkeys(zero, 0),
            "restarts": 0,
            "intervals_in_progress": [],
            "next_run": None,
        }

    def waiting_for(self) -> list[str]:
        return []

    def details(self, pipeline: str) -> dict[str, Any]:
        return {
            "name": pipeline,
            "gears": {
                gear: {"ok": True, "refusals": []} for gear in ("batch", "near-real-time", "real-time")
            },
            "ledger": {"pipeline": pipeline, "runs": []},
            "plan": "Project\n" * 40,
            "durations_ms": {"addBatch": self._count(2000), "triggerExecution": 2000},
            "state": None,
            "watermark": None,
            "source": {"file": "app.py", "line": 1},
        }

    def why(self, pipeline: str) -> dict[str, Any]:
        return {"pipeline": pipeline, "gear": "near-real-time"}

    def shift_for(self, pipeline: str, gear: str, now: bool, emit: Emit, hold: str | None = None) -> None:
        raise NotImplementedError

    def scale_for(self, pipeline: str, partitions: int, emit: Emit) -> None:
        raise NotImplementedError

    def run_interval(self, pipeline: str, start: datetime) -> dict[str, Any]:
        raise NotImplementedError


def serve(home: str, connection: Connection, pipelines: int, opened: Any, stop: Event) -> None:
    """The console's process; sends its address, and serves until it is stopped."""
    running = MadeUp(pipelines)
    console = Console(
        settings=load({"home": Path(home)}, folder=Path(home), environ={}),
        connection=connection,
        live=Live(running.status, Alerts().of),
        running=running,
    )
    server = ConsoleServer(console)
    server.open()
    opened.send((server.url, server.page))
    stop.wait()
    server.close()


def produce(connection: Connection, topic: str, rate: int, stop: Event) -> None:
    """Records at a steady rate, in portions of a twentieth of a second; encoding them is not measured here."""
    encoders = Encoders.of(connection, topic)
    records = [
        (encoders.encoded({"key": f"k-{n}", "value": n, "at": datetime.now(UTC).isoformat()}), b"k-%d" % n)
        for n in range(1000)
    ]
    began, sent = time.monotonic(), 0
    with Producer(connection) as producer:
        while not stop.is_set():
            due = int((time.monotonic() - began) * rate)
            for number in range(sent, due):
                value, key = records[number % len(records)]
                producer.send_bytes(topic, value, key=key)
            sent = due
            stop.wait(0.05)


@contextmanager
def process(work: Callable[..., None], *given: Any) -> Generator[Any]:
    """A process of its own; it is asked to stop with the context."""
    stop = _SPAWN.Event()
    started = _SPAWN.Process(target=work, args=(*given, stop), daemon=True)
    started.start()
    try:
        yield started
    finally:
        stop.set()
        started.join(30)
        started.kill()


def fill(connection: Connection, topics: int, groups: int) -> None:
    """Topics of five partitions, and groups on the first of them."""
    here = Location(str(HERE), 1)
    names = [f"numbers-{n}" for n in range(topics // 2)] + [
        f"results-{n}" for n in range(topics - topics // 2)
    ]
    declared = [
        Topic(name=name, value=Number, key="key", partitions=PARTITIONS, defined_at=here) for name in names
    ]
    with Admin(connection) as admin, Registry(connection) as registry:
        registry.register(declared[0])
        for first in range(0, len(declared), 50):
            admin.ensure(declared[first : first + 50], dead_letters=False)
    for number in range(groups):
        offsets = GroupOffsets(connection, f"readers-{number}")
        offsets.commit({(names[number % topics], partition): 0 for partition in range(PARTITIONS)})
        offsets.close()


# What is measured


@dataclass(frozen=True)
class Usage:
    """The processor time and memory of a process until now."""

    seconds: float
    mb: float
    at: float

    @classmethod
    def of(cls, pid: int) -> Usage:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
        pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
        return cls((int(fields[11]) + int(fields[12])) / _TICK, pages * _PAGE / 2**20, time.monotonic())

    def share_since(self, before: Usage) -> float:
        return (self.seconds - before.seconds) / (self.at - before.at)


class Watched:
    """An open page and Chromium's own figures of it."""

    def __init__(self, page: Any, path: str) -> None:
        self.path = path
        self.page = page
        self._metrics = page.context.new_cdp_session(page)
        self._metrics.send("Performance.enable")

    def figures(self) -> dict[str, float]:
        found = self._metrics.send("Performance.getMetrics")["metrics"]
        return {each["name"]: each["value"] for each in found}

    def size(self) -> dict[str, float]:
        """What it holds, without what only waits to be collected."""
        self._metrics.send("HeapProfiler.collectGarbage")
        found = self.figures()
        return {"heap_mb": round(found["JSHeapUsedSize"] / 2**20, 1), "nodes": int(found["Nodes"])}


def first_page(browser: Any, url: str) -> float:
    """Seconds from the navigation of a new visitor to the first numbers of all pipelines."""
    context = browser.new_context()
    try:
        page = context.new_page()
        page.add_init_script(WATCH_FIRST)
        page.goto(url)
        return page.evaluate("() => window.firstShown") / 1000
    finally:
        context.close()


def open_pages(browser: Any, url: str, entrance: str) -> list[Watched]:
    """The pages, one of which follows the busy topic.

    Each has cookies and connections of its own, as five people have: a browser allows six connections to one server,
    which the streams of five visible pages use up, and the pages that ask again and again would only wait.
    """
    from playwright.sync_api import Error

    opened: list[Watched] = []
    for path, words in PAGES.items():
        page = browser.new_context().new_page()
        page.goto(entrance.replace(url + "/", url + path))
        try:
            page.locator("main", has_text=words).wait_for()
        except Error:
            raise SystemExit(f"{path} does not show its data: {page.inner_text('main')}") from None
        if path == f"/topics/{BUSY}":
            page.get_by_role("button", name="Tail").click()
        opened.append(Watched(page, path))
    return opened


def count(connection: Connection) -> int:
    """The records of the busy topic until now."""
    with Admin(connection) as admin:
        return sum(admin.end_offsets([BUSY]).values())


def tail_of(pages: list[Watched]) -> str:
    """How many records the page that follows the busy topic has got."""
    [page] = [each.page for each in pages if each.path == f"/topics/{BUSY}"]
    lines = page.locator(".viewer").inner_text().splitlines()
    return next((line for line in lines if "are kept" in line), "nothing")


def busy(pages: list[Watched], server: int, seconds: float) -> tuple[dict[str, float], float]:
    """The busy share of each page's main thread, and that of the server, in the same time."""
    before, used = [page.figures() for page in pages], Usage.of(server)
    time.sleep(seconds)
    share = Usage.of(server).share_since(used)
    after = [page.figures() for page in pages]
    return {
        page.path: round(
            (then["TaskDuration"] - was["TaskDuration"]) / (then["Timestamp"] - was["Timestamp"]), 3
        )
        for page, was, then in zip(pages, before, after, strict=True)
    }, round(share, 3)


def measure(connection: Connection, home: str, chosen: argparse.Namespace) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    from tools.browser import find

    ours, theirs = _SPAWN.Pipe()
    found: dict[str, Any] = {"load_before": os.getloadavg()}
    with ExitStack() as stack:
        server = stack.enter_context(process(serve, home, connection, chosen.pipelines, theirs)).pid
        if not ours.poll(60):
            raise SystemExit("the server did not start")
        url, entrance = ours.recv()
        stack.enter_context(process(produce, connection, BUSY, chosen.rate))
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=find(), args=["--no-sandbox"])
        stack.callback(browser.close)
        found["first_page_seconds"] = [round(first_page(browser, entrance), 3) for _ in range(7)]
        time.sleep(5)
        alone = Usage.of(server)
        time.sleep(chosen.seconds)
        found["server_share_without"] = round(Usage.of(server).share_since(alone), 3)
        found["server_mb_without"] = round(Usage.of(server).mb, 1)
        print(f"without pages: {found}", flush=True)
        opened = time.monotonic()
        pages = open_pages(browser, url, entrance)
        time.sleep(10)
        records, since = count(connection), time.monotonic()
        found["busy_share"], found["server_share"] = busy(pages, server, chosen.seconds)
        found["records_per_second"] = round((count(connection) - records) / (time.monotonic() - since))
        found["tail"] = tail_of(pages)
        found["load_during"] = os.getloadavg()
        found["updates_per_second"] = {
            page.path: round(page.page.evaluate(COUNT_UPDATES, 10), 2) for page in pages
        }
        found["answers"] = {page.path: page.page.evaluate(COUNT_ANSWERS, 30) for page in pages}
        print({name: value for name, value in found.items() if name != "first_page_seconds"}, flush=True)
        found["sizes"] = []
        for minutes in sorted({1.0, chosen.soak}):
            time.sleep(max(0.0, opened + 60 * minutes - time.monotonic()))
            sizes = {page.path: page.size() for page in pages}
            found["sizes"].append(
                {"minutes": minutes, "server_mb": round(Usage.of(server).mb, 1), "pages": sizes}
            )
            print(found["sizes"][-1], flush=True)
        found["busy_share_at_end"], found["server_share_at_end"] = busy(pages, server, chosen.seconds)
        found["load_after"] = os.getloadavg()
    return found


def summary(found: dict[str, Any]) -> dict[str, float]:
    """The figures that have a limit."""
    return {
        "first_page_seconds": median(found["first_page_seconds"]),
        "busy_share": max([*found["busy_share"].values(), *found["busy_share_at_end"].values()]),
        "server_share": max(found["server_share"], found["server_share_at_end"]),
        "server_growth_mb": max(each["server_mb"] for each in found["sizes"]) - found["server_mb_without"],
    }


def show(found: dict[str, Any]) -> None:
    pages = Table("page", "updates a second", "main thread busy", "heap MB", "DOM nodes")
    first, last = found["sizes"][0], found["sizes"][-1]
    for path, share in found["busy_share"].items():
        was, then = first["pages"][path], last["pages"][path]
        pages.add_row(
            path,
            f"{found['updates_per_second'][path]:.1f}",
            f"{share:.1%}, at the end {found['busy_share_at_end'][path]:.1%}",
            f"{was['heap_mb']}, at the end {then['heap_mb']}",
            f"{was['nodes']}, at the end {then['nodes']}",
        )
    Terminal().print(pages)
    limits = Table("figure", "measured", "limit")
    for name, value in summary(found).items():
        kept = "" if value < LIMITS[name] else "  MISSED"
        limits.add_row(name, f"{value:.3g}", f"under {LIMITS[name]:g}{kept}")
    Terminal().print(limits)
    loads = ", ".join(f"{found[name][0]:.1f}" for name in ("load_before", "load_during", "load_after"))
    print(f"server without pages: {found['server_share_without']:.1%} of a core; load average {loads}")


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--pipelines", type=int, default=20)
    options.add_argument("--topics", type=int, default=200)
    options.add_argument("--groups", type=int, default=20)
    options.add_argument("--rate", type=int, default=50_000, help="records a second of the busy topic")
    options.add_argument("--seconds", type=float, default=30, help="of each measurement")
    options.add_argument("--soak", type=float, default=5, help="minutes after which pages are measured again")
    chosen = options.parse_args()
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home,
        local.up(load({"home": Path(home)}, environ={}), progress=print) as stack,
    ):
        began = time.monotonic()
        fill(stack.connection, chosen.topics, chosen.groups)
        print(f"{chosen.topics} topics after {time.monotonic() - began:.0f} s", flush=True)
        found = measure(stack.connection, home, chosen)
    show(found)
    path = HERE / "results" / "console.json"
    results = {"chosen": vars(chosen), "limits": LIMITS, "summary": summary(found), "raw": found}
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"raw results: {path.relative_to(Path.cwd())}")


if __name__ == "__main__":
    main()
