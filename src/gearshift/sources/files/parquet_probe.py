"""Decodes every page of a Parquet file in a separate process with limited memory.

A few hundred bytes of Parquet can expand to gigabytes, and neither the metadata nor Arrow sets a limit. The pages are
therefore first decoded in a process that a hostile file may crash. It runs with `python -I`, since this folder has
modules with names of the standard library, and imports nothing of Gearshift.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO

BATCH_ROWS = 1_000
MEMORY_LIMIT = 256 << 20
"""Bytes for the rows of one batch and the pages that contain them."""
OUT_OF_MEMORY = "out of memory"


class ParquetProbe:
    """A client of the probe process, which checks one file after the other and is restarted if one kills it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        atexit.register(self.close)

    def decode(self, file: BinaryIO) -> str | None:
        """The reason why the pages of a file cannot be decoded; None if they can."""
        with self._lock:
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", str(Path(__file__)), str(os.getpid())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    start_new_session=True,  # so that Ctrl-C does not reach it
                    env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
                )
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            try:
                self._process.stdin.write(f"{file.fileno()}\n")
                self._process.stdin.flush()
                answer = self._process.stdout.readline()
            except BrokenPipeError:
                answer = ""
            if not answer:
                self._end()
                return OUT_OF_MEMORY
            return json.loads(answer)

    def close(self) -> None:
        """Stop the process."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def main(owner: str) -> None:
    """For each line with a file descriptor of the owner process, print a line with the result."""
    import resource

    import pyarrow  # pyright: ignore[reportMissingTypeStubs]
    import pyarrow.parquet as parquet  # pyright: ignore[reportMissingTypeStubs]

    pa: Any = pyarrow
    pq: Any = parquet
    used = int(Path("/proc/self/statm").read_text("ascii").split()[5]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY_LIMIT, used + MEMORY_LIMIT))
    for line in sys.stdin:
        why: str | None = None
        try:
            with Path(f"/proc/{owner}/fd/{int(line)}").open("rb") as file:
                opened = pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
                for batch in opened.iter_batches(BATCH_ROWS, use_threads=False):
                    for column in batch.columns:
                        column.cast(_without_dictionaries(pa, column.type))
        except MemoryError:
            why = OUT_OF_MEMORY
        except Exception as error:
            why = (str(error) or type(error).__name__).splitlines()[0]
        print(json.dumps(why), flush=True)


def _without_dictionaries(pa: Any, of: Any) -> Any:
    """A column's type without dictionary encoding, as the rows are read."""
    if pa.types.is_dictionary(of):
        return of.value_type
    if pa.types.is_struct(of):
        return pa.struct([field.with_type(_without_dictionaries(pa, field.type)) for field in of])
    if pa.types.is_map(of):
        return pa.map_(of.key_type, _without_dictionaries(pa, of.item_type))
    if pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of):
        return pa.list_(_without_dictionaries(pa, of.value_type))
    return of


if __name__ == "__main__":
    main(sys.argv[1])
