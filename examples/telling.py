"""What the demos share beside their stories: an empty folder to begin in, a way to wait, and an end in a sentence."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gearshift.cli.listing import wide_console
from gearshift.cli.output import explain
from gearshift.errors import GearshiftError

console = wide_console()
_MARK = "demo"  # a file that says whose folder it is


def tell(story: Callable[[], None]) -> int:
    """Tell a story to its end; the exit code."""
    # Java lives for two minutes here: to compile it well costs more than it brings.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    logging.basicConfig(level=logging.ERROR)
    began = time.monotonic()
    try:
        story()
    except GearshiftError as error:
        return explain(error)
    except KeyboardInterrupt:
        console.print("stopped; nothing is left running")
        return 130
    console.print(f"\nThe whole story took {time.monotonic() - began:.0f} s. Nothing is left running.")
    return 0


def empty(folder: Path) -> Path:
    """The folder, for a story that begins at the beginning: what the last telling left there is removed."""
    folder = folder.absolute()
    if folder.exists() and any(folder.iterdir()):
        if not (folder / _MARK).exists():
            raise GearshiftError(f"{folder} holds something else than a demo", hint="name another --folder")
        with (folder / "runner.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise GearshiftError(
                    f"a demo runs in {folder}", hint="stop it, or name another --folder"
                ) from None
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARK).touch()
    return folder


def wait(check: Callable[[], object], what: str, *, within: float = 300.0, every: float = 0.1) -> None:
    """Until it is so, or a clear word that it is not."""
    until = time.monotonic() + within
    while not check():
        if time.monotonic() > until:
            raise GearshiftError(
                f"{what} did not come within {within:.0f} s", hint="see logs/spark.log in its folder"
            )
        time.sleep(every)


def gearshift(*words: str, home: Path) -> None:
    """A command as a person types it in another terminal, and what it answers."""
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
