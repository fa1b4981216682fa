"""`python -m tests.faults.harness`: a run of any length; its exit code says whether every promise was kept."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.faults.harness.faults import FAULTS
from tests.faults.harness.running import run


def main() -> int:
    """Run as the command line says."""
    reader = argparse.ArgumentParser(prog="python -m tests.faults.harness", description=__doc__)
    reader.add_argument("--seed", type=int, default=1)
    reader.add_argument("--seconds", type=float, default=600)
    reader.add_argument("--mutant", choices=("commits-first",))
    reader.add_argument("--only", help="a part of the name of the faults to use")
    reader.add_argument("--folder", type=Path, help="where to work, and to leave everything afterwards")
    asked = reader.parse_args()
    faults = tuple(fault for fault in FAULTS if asked.only is None or asked.only in fault.name)
    options = {"seed": asked.seed, "seconds": asked.seconds, "faults": faults, "mutant": asked.mutant}

    def say(words: str) -> None:
        print(words, flush=True)

    folder = asked.folder or Path(tempfile.mkdtemp(prefix="gearshift-faults-"))
    folder.mkdir(parents=True, exist_ok=asked.folder is None)
    kept = False
    try:
        report = run(folder, log=say, **options)
        kept = report.kept
        say(str(report))
    finally:
        if kept and asked.folder is None:
            shutil.rmtree(folder)
        elif not kept:
            say(f"the logs are in {folder}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
