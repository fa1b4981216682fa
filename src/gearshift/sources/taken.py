"""Which files were taken, and how far: what the marks of a file source say."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import timedelta

from gearshift.topics.remembered import SIZE, Remembered

_FOR_EVER = timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a file has been taken."""

    rows: int = 0
    sent: int = 0
    dead: int = 0
    done: bool = False

    @classmethod
    def read(cls, mark: bytes) -> Position:
        """The position that a mark says."""
        return cls(**json.loads(mark))

    def write(self) -> bytes:
        """The mark that says this position."""
        return json.dumps(asdict(self)).encode()


class TakenFiles:
    """The marks of a file source: some twenty bytes for each file that was taken, and a position where one was begun."""

    def __init__(self) -> None:
        self.read_to = 0
        self.begun: dict[bytes, Position] = {}
        self._taken = Remembered(_FOR_EVER)

    def is_taken(self, mark: bytes) -> bool:
        """Whether a file was taken, all of it."""
        return _digest(mark) in self._taken

    def learn(self, name: bytes, value: bytes, at: float) -> None:
        """Take note of how far a file was taken."""
        position = Position.read(value)
        if position.done:
            self.begun.pop(name, None)
            self._taken.add(_digest(name), at)
        else:
            self.begun[name] = position


def _digest(mark: bytes) -> bytes:
    return hashlib.blake2b(mark, digest_size=SIZE).digest()
