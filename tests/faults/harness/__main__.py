"""`python -m tests.faults.harness`: a run of any length; its exit code says whether every promise was kept."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.faults.harness.faults import FAULTS, KNOWN_GAP
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
    faults = tuple(fault for fault in (*FAULTS, KNOWN_GAP) if asked.only is None or asked.only in fault.name)
    options = {"seed": asked.seed, "seconds": asked.seconds, "faults": faults, "mutant": asked.mutant}

    def say(words: str) -> None:
        print(words, flush=True)

    if asked.folder is not None:
        asked.folder.mkdir(parents=True)
        report = run(asked.folder, log=say, **options)
    else:
        with tempfile.TemporaryDirectory(prefix="gearshift-faults-") as folder:
            report = run(Path(folder), log=say, **options)
    say(str(report))
    return 0 if report.kept else 1


if __name__ == "__main__":
    sys.exit(main())
