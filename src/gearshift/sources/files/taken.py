"""The positions of ingested files, kept as marks of a file source."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import timedelta

from gearshift.topics.marks.remembered import SIZE, Remembered

_NEVER_FORGOTTEN = timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class Position:
    """How much of a file has been sent."""

    rows: int = 0
    sent: int = 0
    dead: int = 0
    done: bool = False

    @classmethod
    def read(cls, mark: bytes) -> Position:
        """The position in a mark."""
        return cls(**json.loads(mark))

    def write(self) -> bytes:
        """The mark of this position."""
        return json.dumps(asdict(self)).encode()


class TakenFiles:
    """The marks of a file source: about twenty bytes for each finished file, and the position of each started one."""

    def __init__(self) -> None:
        self.read_to = 0
        self.begun: dict[bytes, Position] = {}
        self._taken = Remembered(_NEVER_FORGOTTEN)

    def is_taken(self, mark: bytes) -> bool:
        """Whether a file was ingested completely."""
        return _digest(mark) in self._taken

    def learn(self, name: bytes, value: bytes, at: float) -> None:
        """Add the position of a file."""
        position = Position.read(value)
        if position.done:
            self.begun.pop(name, None)
            self._taken.add(_digest(name), at)
        else:
            self.begun[name] = position


def _digest(mark: bytes) -> bytes:
    return hashlib.blake2b(mark, digest_size=SIZE).digest()
