"""What was sent against what was delivered."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

Numbered = tuple[str, int]
"""A key, and the number of the record among those of its key."""


class Line(NamedTuple):
    """A call of a handler, as its process wrote it down."""

    key: str
    n: int
    process: int
    partition: int
    offset: int
    waited: float
    """Seconds since it was sent."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The three counts.

    >>> judge({"a": 3}, [("a", 0), ("a", 2), ("a", 0)])
    lost 1, duplicated 1, out of order 0
    >>> judge({"a": 3}, [("a", 0), ("a", 2), ("a", 1)])
    lost 0, duplicated 0, out of order 1
    """

    lost: int
    duplicated: int
    out_of_order: int

    def __repr__(self) -> str:
        return f"lost {self.lost}, duplicated {self.duplicated}, out of order {self.out_of_order}"


def judge(sent: Mapping[str, int], delivered: Iterable[Numbered]) -> Verdict:
    """Count, from how many records each key has and from what came, in the order in which it came.

    Out of order is what came for the first time after a later record of its key.
    """
    times: Counter[Numbered] = Counter()
    highest: dict[str, int] = {}
    out_of_order = 0
    for key, n in delivered:
        times[key, n] += 1
        if times[key, n] == 1:
            out_of_order += n < highest.get(key, -1)
            highest[key] = max(n, highest.get(key, -1))
    wanted = {(key, n) for key, count in sent.items() for n in range(count)}
    assert times.keys() <= wanted, f"never sent: {sorted(times.keys() - wanted)[:5]}"
    return Verdict(len(wanted - times.keys()), sum(times.values()) - len(times), out_of_order)


class Written:
    """What the handlers have written down in a file, which grows."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0
        self._lines: list[Line] = []
        self._delivered: set[Numbered] = set()
        self._lock = threading.Lock()

    def lines(self) -> list[Line]:
        """All of it, in its order; a line that is being written is left out."""
        with self._lock:
            self._read_on()
            return self._lines.copy()

    def count(self) -> int:
        """How many different records were delivered."""
        with self._lock:
            self._read_on()
            return len(self._delivered)

    def _read_on(self) -> None:
        if not self._file.exists():
            return
        with self._file.open("rb") as file:
            file.seek(self._read)
            whole = file.read().rpartition(b"\n")[0]
        if whole:
            self._read += len(whole) + 1
        for line in whole.decode().splitlines():
            key, n, process, partition, offset, waited = line.split(",")
            self._lines.append(Line(key, int(n), int(process), int(partition), int(offset), float(waited)))
            self._delivered.add((key, int(n)))
