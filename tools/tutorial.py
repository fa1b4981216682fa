"""Do what docs/tutorial.md says, in an empty folder, and put what the commands print below them.

    python tools/tutorial.py           run it and print what the commands print
    python tools/tutorial.py --write   write that into the page

`shell` blocks are run line by line: `gearshift run` in the background until the next one or `gearshift down`, all others
to their end. A `text` block after a single command is what it printed; a `diff` block changes the app.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a script

from tools.transcripts import ask, gearshift, run

PAGE = Path(__file__).resolve().parents[1] / "docs" / "tutorial.md"
_BLOCK = re.compile(r"^```(shell|text|diff)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_READY_WITHIN = 240.0
_ENOUGH = 30
"""Records of each pipeline after which the commands of the tutorial have something to show."""


@dataclass(slots=True)
class Reader:
    """Somebody who follows the tutorial: a folder, an app that may be running, and what the last command printed."""

    folder: Path
    printed: str = ""
    running: subprocess.Popen[bytes] | None = None

    def follow(self, language: str, text: str) -> None:
        """Do what a block says."""
        if language == "diff":
            self.edit(text)
        elif language == "shell":
            for line in text.splitlines():
                self.type(shlex.split(line, comments=True))

    def type(self, words: list[str]) -> None:
        """Run one command."""
        if words[:1] == ["cd"]:
            self.folder /= words[1]
        elif words[:2] == ["gearshift", "run"]:
            self.start(words)
        elif words[:1] == ["pytest"]:
            done = self._finish([sys.executable, "-m", "pytest", *words[1:]])
            self.printed = "".join(f"{line.rstrip()}\n" for line in done.splitlines())
        elif words[:1] == ["gearshift"]:
            if words[1] in ("down", "clean"):
                self.stop()
            self.printed = self._without_places(run(self.folder, shlex.join(words)))
        else:
            assert words[:2] == ["pip", "install"], words

    def start(self, words: list[str]) -> None:
        """Start the app; returns when every pipeline has processed some more records."""
        self.stop()
        with (self.folder / ".run.log").open("w") as log:
            self.running = subprocess.Popen(
                [gearshift(), *words[1:]],
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        until = time.monotonic() + _READY_WITHIN
        while not self._is_working():
            if self.running.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the app is not working: {(self.folder / '.run.log').read_text('utf-8')}")
            time.sleep(1)

    def stop(self) -> None:
        """Press Ctrl-C."""
        if self.running is not None:
            self.running.send_signal(signal.SIGTERM)
            self.running.wait(120)
            self.running = None

    def edit(self, diff: str) -> None:
        """Change the lines of the app that a diff names."""
        [app] = [path for path in self.folder.glob("*.py") if path.name != "conftest.py"]
        old, new = (
            "".join(f"{line[1:]}\n" for line in diff.splitlines() if line[:1] in (sign, " ")) for sign in "-+"
        )
        text = app.read_text("utf-8")
        assert text.count(old) == 1, f"{app.name} does not have these lines once:\n{old}"
        app.write_text(text.replace(old, new), "utf-8")

    def _is_working(self) -> bool:
        status: dict[str, Any] = ask(self.folder, "gearshift status -o json") or {}
        pipelines = (status.get("runner") or {}).get("pipelines", [])
        return bool(pipelines) and all((each["records"] or 0) >= _ENOUGH for each in pipelines)

    def _finish(self, command: list[str]) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.stdout

    def _without_places(self, text: str) -> str:
        """Without what only this machine has: where the project is, and where Gearshift was installed from."""
        kept = [line for line in text.splitlines() if "gearshift is installed from" not in line]
        place = re.escape(str(self.folder.resolve()))
        text = re.sub(rf"{place}/?", "", "".join(f"{line}\n" for line in kept).rstrip("\n") + "\n")
        return text.replace(str(Path.home()), "~")


@contextmanager
def reader() -> Iterator[Reader]:
    """Somebody in an empty folder; at the end nothing is left running."""
    with tempfile.TemporaryDirectory(prefix="tutorial-") as name:
        someone = Reader(Path(name))
        try:
            yield someone
        finally:
            someone.stop()
            run(someone.folder, "gearshift down")


def blocks(page: Path = PAGE) -> list[tuple[str, str]]:
    """The blocks of the page: language and text."""
    return _BLOCK.findall(page.read_text("utf-8"))


def main() -> None:
    """Follow the page."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the app is stopped as well
    printed: list[str] = []
    with reader() as someone:
        for language, text in blocks():
            if language == "text":
                printed.append(someone.printed)
                print(someone.printed, flush=True)
            else:
                print(text, flush=True)
                someone.follow(language, text)
    if "--write" in sys.argv[1:]:
        new = iter(printed)
        written = _BLOCK.sub(
            lambda found: f"```text\n{next(new)}```" if found[1] == "text" else found[0],
            PAGE.read_text("utf-8"),
        )
        PAGE.write_text(written, "utf-8")


if __name__ == "__main__":
    main()
