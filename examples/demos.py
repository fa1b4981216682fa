"""What the demos share: an empty folder, a way to wait, one live screen, and an error message instead of a traceback.

A story's `demo.py` names its boards and calls `story`:

    sys.exit(story(HERE / "live_cricket.py", title="…", boards=[Board(…), SqlBoard(…)], shifts=[("live_scores", "batch")]))
"""

from __future__ import annotations

import argparse
import fcntl
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).parent))
from demo_interrupts import Interrupts, is_no_interrupt  # first, since Ctrl-C is quiet from here on
from gearshift import settings as configuration
from gearshift.cli.listing import wide_console
from gearshift.cli.output import explain
from gearshift.cli.tables import proof
from gearshift.errors import DefinitionError, GearshiftError
from gearshift.freshness import Gear

if TYPE_CHECKING:
    from gearshift.definitions import Graph
    from gearshift.runner.runner import Runner
    from gearshift.settings import Settings

from demo_boards import Board, Boards, SqlBoard, topics_of
from demo_screen import Screen

__all__ = ["Board", "SqlBoard", "console", "empty", "gearshift", "run_demo", "story", "wait"]

DATA = "GEARSHIFT_STORY_DATA"
"""The variable that names the data file which a story reads instead of its simulator."""

console = wide_console()
_MARK = "demo"  # a file that marks the folder of a demo
_LAST_BOARD_WITHIN = 60.0
_QUIET_FOR = 3.0  # seconds without a record to process, after which no more are expected
_RESTARTS = 3  # of a pipeline, after which its error ends the demo


def run_demo(story: Callable[[], None], *, interrupts: Interrupts | None = None) -> int:
    """Run a demo and return the exit code."""
    # Java runs for only two minutes here: optimizing its code costs more time than it saves. Without the optimizer Java
    # has room for 48 MB of compiled code, which several pipelines fill; then it compiles nothing any more.
    os.environ.setdefault(
        "JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
    )
    assert logging.lastResort is not None
    # It writes to the current stderr, which a live screen replaces to print lines above itself.
    logging.lastResort.addFilter(is_no_interrupt)
    logging.basicConfig(level=logging.ERROR, handlers=[logging.lastResort])
    began = time.monotonic()
    try:
        with interrupts or Interrupts():
            story()
    except GearshiftError as error:
        return explain(error)
    except KeyboardInterrupt:
        console.print("stopped; nothing is left running")
        return 130
    console.print(f"\nThe whole story took {time.monotonic() - began:.0f} s. Nothing is left running.")
    return 0


def story(
    file: Path,
    *,
    title: str,
    boards: Sequence[Board | SqlBoard],
    shifts: Sequence[tuple[str, str]] = (),
    seconds: float = 30,
) -> int:
    """Run an app on one live screen, with `shifts` (pipeline, gear) while records flow; return the exit code.

    A shift to `batch` of a pipeline that is in this gear already runs its next batch now.

    It ends `seconds` after the first result, when every board has a row, or earlier, when all sources have ended and
    every record is processed. With `--keep` it runs until Ctrl-C.
    """
    options = argparse.ArgumentParser(description=title)
    options.add_argument("--keep", action="store_true", help="leave the app running until Ctrl-C")
    options.add_argument("--seconds", type=float, default=seconds, help="how long records flow (%(default)s)")
    options.add_argument(
        "--folder", type=Path, default=Path(".gearshift") / f"demo-{file.stem}", help="the demo's data folder"
    )
    options.add_argument(
        "--data", type=Path, metavar="FILE", help="a data file to read instead of simulating"
    )
    chosen = options.parse_args()
    interrupts = Interrupts()
    script = _Script(file, title, boards, shifts, chosen.seconds, chosen.keep)
    return run_demo(lambda: _tell(script, chosen.folder, chosen.data, interrupts), interrupts=interrupts)


@dataclass(frozen=True)
class _Script:
    file: Path
    title: str
    boards: Sequence[Board | SqlBoard]
    shifts: Sequence[tuple[str, str]]
    seconds: float
    keep: bool


def _tell(script: _Script, folder: Path, data: Path | None, interrupts: Interrupts) -> None:
    if data is not None:
        os.environ[DATA] = str(_readable(data, script.file.parent))
    with Screen(console, script.title) as screen:
        began = time.monotonic()
        screen.say("loading the app")
        settings = _settings(empty(folder))
        from gearshift.runner.loading import load_app
        from gearshift.runner.runner import Runner

        app = load_app(script.file)
        _require_names(script, app.graph)
        runner = Runner(app, settings, file=script.file, progress=screen.say)
        try:
            with runner:
                try:
                    _play(runner, script, screen, began)
                finally:
                    interrupts.hold()
                    screen.freeze()
                    screen.say("stopping")
        finally:
            for name, supervisor in runner.supervisors.items():
                screen.note(f"{name}: {proof(supervisor.ledger)}")
            screen.say("")
    for name, supervisor in runner.supervisors.items():
        if supervisor.ledger.gap:
            raise GearshiftError(
                f"{name} missed or repeated {supervisor.ledger.gap:,} offsets",
                hint=f"see GEARSHIFT_HOME={folder} gearshift ledger {name}",
            )


def _readable(data: Path, story: Path) -> Path:
    if not (story / "loader.py").exists():
        raise DefinitionError(f"{story.name} reads no data files", hint="leave out --data")
    if not data.exists():
        raise DefinitionError(f"{data} does not exist", hint="name an existing file with --data")
    return data.absolute()


def _require_names(script: _Script, graph: Graph) -> None:
    """Refuse a script with unknown names before anything starts."""
    topics_of(script.boards, graph.topics)
    for name, gear in script.shifts:
        Gear.named(gear)
        if name not in graph.pipelines:
            known = ", ".join(graph.pipelines)
            raise DefinitionError(f"a shift of an unknown pipeline {name!r}", hint=f"use one of {known}")


def _settings(home: Path) -> Settings:
    """The settings of this machine, with a checkpoint interval that is short enough to watch a shift."""
    environ = {name: value for name, value in os.environ.items() if name != DATA}
    return configuration.load(
        {"home": home}, environ={"GEARSHIFT_CHECKPOINT_INTERVAL": "10 seconds", **environ}
    )


def _play(runner: Runner, script: _Script, screen: Screen, began: float) -> None:
    """Show the first results, shift while records flow, and stop at the end of the story."""
    warehouse, topics = runner.settings.warehouse_uri, runner.graph.topics
    with Boards(script.boards, runner.context.connection, topics, warehouse) as boards:
        screen.watch(runner, boards)
        screen.note(f"watch it in a browser: {runner.page}")
        screen.say("waiting for the first result")
        wait(lambda: _require_healthy(runner, boards) and boards.started, "the first result")
        first = time.monotonic()
        screen.note(f"the first result came after {first - began:.0f} s")
        screen.snapshot()
        for number, (pipeline, gear) in enumerate(script.shifts, 1):
            screen.say("records flow")
            _flow(runner, boards, until=first + number * script.seconds / (len(script.shifts) + 1))
            _shift(runner, boards, screen, pipeline, Gear.named(gear))
            screen.snapshot()
        screen.say("records flow")
        _flow(runner, boards, until=first + script.seconds)
        if not boards.filled:
            screen.say("waiting for the last board")
            until = time.monotonic() + _LAST_BOARD_WITHIN
            _flow(runner, boards, until=until, quiet_for=_LAST_BOARD_WITHIN / 3, enough=lambda: boards.filled)
        if script.keep:
            home = runner.settings.home
            screen.say(f"it keeps running: GEARSHIFT_HOME={home} gearshift status; Ctrl-C to stop")
            wait(lambda: not _require_healthy(runner, boards), "Ctrl-C", within=float("inf"))
        screen.snapshot()


def _flow(
    runner: Runner,
    boards: Boards,
    *,
    until: float,
    quiet_for: float = _QUIET_FOR,
    enough: Callable[[], bool] = lambda: False,
) -> None:
    """Let records flow until then, until that is enough, or until there are no more."""
    quiet_since = None
    while (now := time.monotonic()) < until and not enough():
        _require_healthy(runner, boards)
        if _is_busy(runner):
            quiet_since = None
        elif quiet_since is None:
            quiet_since = now
        elif now - quiet_since > quiet_for:
            return
        time.sleep(min(0.2, max(0.0, until - now)))


def _is_busy(runner: Runner) -> bool:
    status = runner.status()
    if not status["sources"] or any(source["running"] for source in status["sources"]):
        return True
    return any(
        pipeline["lag"] or (pipeline["gear"] == str(Gear.BATCH) and pipeline["state"] == "running")
        for pipeline in status["pipelines"]
    )


def _shift(runner: Runner, boards: Boards, screen: Screen, pipeline: str, gear: Gear) -> None:
    supervisor = runner.supervisors[pipeline]

    def waits_for_table() -> bool:
        return supervisor.condition.state.startswith("waiting for")

    if waits_for_table():
        screen.say(f"{pipeline} is {supervisor.condition.state}")
        wait(lambda: _require_healthy(runner, boards) and not waits_for_table(), f"{pipeline} to start")
    before = supervisor.gear
    message = f"running {pipeline} now" if gear is before else f"shifting {pipeline}: {before} → {gear}"
    screen.say(message)
    done = runner.shift(pipeline, gear, on_step=lambda _, detail: screen.say(message, detail))
    if gear is not before:
        screen.note(
            f"{pipeline}: {done.before} → {done.after}, pause {done.pause:.1f} s, {done.replayed:,} records replayed"
        )


def _require_healthy(runner: Runner, boards: Boards) -> bool:
    """Raise what stopped a source, a pipeline or a board; what is only restarted shows its error on the screen."""
    for source in runner.sources.values():
        status = source.status()
        if status["error"]:
            raise GearshiftError(f"source {status['name']}: {status['error']}", hint=f"see {status['at']}")
    for name, supervisor in runner.supervisors.items():
        condition = supervisor.condition
        if condition.error and (condition.state == "stopped" or condition.restarts >= _RESTARTS):
            raise GearshiftError(
                f"pipeline {name}: {condition.error}", hint=f"see {supervisor.pipeline.defined_at}"
            )
    if boards.problem:
        raise GearshiftError(boards.problem, hint="fix the board in the story's demo.py")
    return True


def empty(folder: Path) -> Path:
    """The folder of a demo, without what an earlier run left there."""
    folder = folder.absolute()
    if folder.exists() and any(folder.iterdir()):
        if not (folder / _MARK).exists():
            raise GearshiftError(f"{folder} is not the folder of a demo", hint="use another --folder")
        with (folder / "runner.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise GearshiftError(
                    f"a demo is running in {folder}", hint="stop it, or use another --folder"
                ) from None
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARK).touch()
    return folder


def wait(check: Callable[[], object], what: str, *, within: float = 300.0, every: float = 0.1) -> None:
    """Wait until a condition holds, or raise an error that names it."""
    until = time.monotonic() + within
    while not check():
        if time.monotonic() > until:
            raise GearshiftError(
                f"timed out after {within:.0f} s waiting for {what}", hint="see logs/spark.log in its folder"
            )
        time.sleep(every)


def gearshift(*words: str, home: Path) -> None:
    """Run a command as in another terminal, and show it with its output."""
    typed = " ".join(f'"{word}"' if " " in word else word for word in words)
    console.print(f"  $ gearshift {typed}", style="dim", highlight=False, markup=False, soft_wrap=True)
    command = [sys.executable, "-c", "from gearshift.cli import main; main()"]
    done = subprocess.run(
        [*command, *words],
        env={**os.environ, "GEARSHIFT_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise GearshiftError(f"gearshift {words[0]} {words[1]} failed: {done.stderr.strip()}")
    console.print(done.stdout, highlight=False, markup=False, soft_wrap=True)
