"""Runs the demo of a story as a user does: in an empty folder, to its end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gearshift import stack as local
from gearshift import tables
from gearshift.settings import Settings, load
from tests import stories

SECONDS = 8
PROOF = re.compile(r"^ +(\w+): [\d,]+ records? in \d+ runs?: (.*)", re.MULTILINE)


@dataclass(frozen=True)
class Told:
    """A demo that has ended."""

    output: str
    settings: Settings

    def ask(self, query: str) -> Sequence[tuple[Any, ...]]:
        """The answer of its warehouse."""
        return tables.sql(self.settings.warehouse_uri, query).rows


def tell(story: str, folder: Path, *words: str, seconds: float = SECONDS) -> Told:
    """Run a demo to its end; fails unless it ends well, fills every board, and the ledgers have no gap."""
    script = stories.file(story).with_name("demo.py")
    home = folder / "demo"
    done = subprocess.run(
        [sys.executable, script, "--folder", home, "--seconds", str(seconds), *words],
        cwd=folder,
        env=environ(),
        capture_output=True,
        text=True,
        timeout=600,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    output = done.stdout
    assert done.returncode == 0, output + done.stderr
    assert "Traceback" not in output + done.stderr
    proofs = dict(PROOF.findall(output))
    assert set(proofs) == set(stories.app(story).graph.pipelines)
    assert not [name for name, verdict in proofs.items() if "no gap" not in verdict], output
    last = output[output.rindex("records flow") :]
    assert "nothing yet" not in last, output
    settings = load({"home": home}, environ={})
    assert local.find(settings) is None
    return Told(output, settings)


def environ() -> dict[str, str]:
    """The environment of a user who has set nothing, with shorter checkpoint intervals."""
    ours = ("GEARSHIFT_", "NO_COLOR", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    cache = {name: os.environ[name] for name in ("GEARSHIFT_CACHE",) if name in os.environ}
    return {**kept, **cache, "GEARSHIFT_CHECKPOINT_INTERVAL": "5 seconds"}
