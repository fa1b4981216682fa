"""Run the commands of documentation pages and put what they print below them.

A page's `shell` block of one `gearshift` command that a `text` block follows is a transcript. The commands run in the
order of the pages, in an empty folder next to a running app.

    python tools/transcripts.py           run docs/concepts and print what differs
    python tools/transcripts.py --write   write what the commands printed into the pages
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONCEPTS = Path(__file__).resolve().parents[1] / "docs" / "concepts"
APP = CONCEPTS / "meters.py"
SETTINGS = 'brokers = 3\ncheckpoint_interval = "10 seconds"\n'
"""The gearshift.toml that the pages show: three brokers, so that leaders and replicas can be seen, and commits often."""
COLUMNS = "112"
_TRANSCRIPT = re.compile(
    r"^```shell\n(gearshift [^\n]*)\n```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
_READY_WITHIN = 240.0
_COMMAND_WITHIN = 600.0


@dataclass(frozen=True, slots=True)
class Transcript:
    """A command of a page and what it printed."""

    command: str
    printed: str


def transcripts(page: Path) -> list[Transcript]:
    """The transcripts of a page, in order."""
    return [Transcript(*found) for found in _TRANSCRIPT.findall(page.read_text("utf-8"))]


def pages() -> list[Path]:
    """The pages with transcripts, in the order in which they are read."""
    names = [f"{name}.md" for name in ("kafka", "consumers", "speed", "records")]
    return [CONCEPTS / name for name in names]


def write(page: Path, printed: Sequence[str]) -> None:
    """Replace what a page says was printed, for each of its transcripts."""
    new = iter(printed)

    def block(found: re.Match[str]) -> str:
        return f"```shell\n{found[1]}\n```\n\n```text\n{next(new)}```"

    page.write_text(_TRANSCRIPT.sub(block, page.read_text("utf-8")), "utf-8")


def run(folder: Path, command: str) -> str:
    """What a command prints, without colours, trailing blanks and the place of the folder."""
    program, *words = shlex.split(command)
    assert program == "gearshift", command
    done = subprocess.run(
        [gearshift(), *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": COLUMNS, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_COMMAND_WITHIN,
        check=False,
    )
    printed = done.stdout.replace(f"{folder.resolve()}/", "").strip("\n")
    return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


def ask(folder: Path, command: str) -> Any:
    """What a command with `-o json` answers; None if it failed."""
    done = subprocess.run(
        [gearshift(), *shlex.split(command)[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout) if done.returncode == 0 else None


@contextmanager
def running(ready: Callable[[Path], bool], *, app: Path = APP, settings: str = SETTINGS) -> Iterator[Path]:
    """An app in a folder of its own; entered when its status is ready, and stopped as Ctrl-C does."""
    with tempfile.TemporaryDirectory(prefix="concepts-") as name:
        folder = Path(name)
        for file in CONCEPTS.glob("*.py"):
            shutil.copy(file, folder)
        (folder / "gearshift.toml").write_text(settings, "utf-8")
        with (folder / "run.log").open("w") as log:
            process = subprocess.Popen(
                [gearshift(), "run", app.name], cwd=folder, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            _await(process, folder, ready)
            yield folder
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()
            run(folder, "gearshift down")


def gearshift() -> Path:
    """The command of this environment."""
    return Path(sys.executable).with_name("gearshift")


def settled(folder: Path) -> bool:
    """Whether the app has enough to show: rows in the table, a group per pipeline, alerts set aside and too many left."""
    status: dict[str, Any] = ask(folder, "gearshift status -o json") or {}
    runner = status.get("runner") or {}
    pipelines, deliveries = runner.get("pipelines", []), runner.get("deliveries", [])
    return (
        bool(pipelines and deliveries)
        and all((each["records"] or 0) > 1500 for each in pipelines)
        and all(each["dead_letters"] and each["advice"] for each in deliveries)
        and len(ask(folder, "gearshift group lag -o json") or []) == len(pipelines) + len(deliveries)
    )


def _await(process: subprocess.Popen[bytes], folder: Path, ready: Callable[[Path], bool]) -> None:
    until = time.monotonic() + _READY_WITHIN
    while not ready(folder):
        log = (folder / "run.log").read_text("utf-8")
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"the app is not ready: {log}")
        time.sleep(1)


def main() -> None:
    """Run the transcripts of all pages."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the app is stopped as well
    with running(settled) as folder:
        for page in pages():
            found = transcripts(page)
            printed = [run(folder, each.command) for each in found]
            for each, text in zip(found, printed, strict=True):
                print(f"$ {each.command}\n{text}")
            if "--write" in sys.argv[1:]:
                write(page, printed)


if __name__ == "__main__":
    main()
