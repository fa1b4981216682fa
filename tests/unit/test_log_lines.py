"""Logs that begin a new file when they are large."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_TALKATIVE = """
import os, sys
from pathlib import Path
from gearshift.log_lines import rotate

os.dup2(2, 1)
for number in range(40):
    print(f"printed {number}", flush=True)
    os.write(2, f"written {number}\\n".encode())
    rotate(Path(sys.argv[1]), 2, 1, most_bytes=500)
"""


def test_whoever_writes_to_a_large_log_goes_on_in_a_new_one_and_the_one_before_is_kept(
    tmp_path: Path,
) -> None:
    log = tmp_path / "delivery-texts-0.log"
    with log.open("ab") as file:
        subprocess.run([sys.executable, "-c", _TALKATIVE, str(log)], stderr=file, timeout=60, check=True)
    before = log.with_name(f"{log.name}.1")
    kept = (before.read_text() + log.read_text()).splitlines()
    assert kept == [f"{how} {number}" for number in range(40) for how in ("printed", "written")][-len(kept) :]
    assert 500 <= before.stat().st_size < 600
    assert log.stat().st_size < 500
