"""What has been delivered within the last day, in some twenty bytes each."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from threading import Lock

SIZE = 12
"""Bytes of a digest: the odds that any two of ten million are the same are one to a thousand billion."""
_ENTRY = SIZE + 2  # a digest, and the number of the quarter of an hour that it is of
_IN_A_DAY = 96
_NUMBERS = 1 << 16
_SHARD = 64  # entries of a shard, in the mean: bytes.find looks through them in a fraction of a microsecond
_SWEEP_EVERY = 16  # additions: all shards are swept once while a third of what they hold is added


class Remembered:
    """The digests of one partition, each for a day since it came and a quarter of an hour at most.

    The entries lie in many short blocks of bytes, a set of Python's own would take a hundred bytes for each. The
    shards grow one at a time (linear hashing), and what is too old is swept out of one at a time: nothing ever waits
    for all of them.

    >>> now = 0.0
    >>> remembered = Remembered(clock=lambda: now)
    >>> remembered.add(b"twelve bytes"); b"twelve bytes" in remembered
    True
    >>> now = 86_400.0; b"twelve bytes" in remembered
    True
    >>> now += 900.0; b"twelve bytes" in remembered
    False
    """

    def __init__(
        self, kept: timedelta = timedelta(days=1), *, clock: Callable[[], float] = time.time
    ) -> None:
        self.read_to: int | None = None
        """The offset up to which the marks of the partition were read."""
        self._width = kept.total_seconds() / _IN_A_DAY
        self._clock = clock
        self._shards = [bytearray()]
        self._half = 1  # the power of two up to which shards are numbered before they split
        self._count = 0
        self._added = 0
        self._swept = 0
        self._lock = Lock()

    def add(self, digest: bytes, at: float | None = None) -> None:
        """Remember a digest, since now or since that time."""
        number = self._number(at)
        with self._lock:
            shard, place = self._find(digest)
            if place >= 0:
                shard[place + SIZE : place + _ENTRY] = number.to_bytes(2)
                return
            shard += digest + number.to_bytes(2)
            self._count += 1
            self._added += 1
            if self._added % _SWEEP_EVERY == 0:
                self._sweep()
            if self._count > _SHARD * len(self._shards):
                self._split()

    def __contains__(self, digest: bytes) -> bool:
        with self._lock:
            shard, place = self._find(digest)
            if place < 0:
                return False
            return not _is_old(self._number(), int.from_bytes(shard[place + SIZE : place + _ENTRY]))

    def discard(self, digest: bytes) -> None:
        """Forget a digest."""
        with self._lock:
            shard, place = self._find(digest)
            if place >= 0:
                del shard[place : place + _ENTRY]
                self._count -= 1

    def __len__(self) -> int:
        """How many there are, with those that are too old and not swept out yet."""
        return self._count

    def _find(self, digest: bytes) -> tuple[bytearray, int]:
        """The shard of a digest, and its place in it or -1."""
        shards, half = self._shards, self._half
        index = hash(digest) % (half + half)
        shard = shards[index if index < len(shards) else index - half]
        place = shard.find(digest)
        while place % _ENTRY and place >= 0:  # across two entries
            place = shard.find(digest, place + 1)
        return shard, place

    def _split(self) -> None:
        """Move what belongs there to one shard more."""
        old, size = len(self._shards) - self._half, 2 * self._half
        kept, moved = bytearray(), bytearray()
        shard = bytes(self._shards[old])
        for place in range(0, len(shard), _ENTRY):
            half = kept if hash(shard[place : place + SIZE]) % size == old else moved
            half += shard[place : place + _ENTRY]
        self._shards[old] = kept
        self._shards.append(moved)
        if len(self._shards) == 2 * self._half:
            self._half *= 2

    def _sweep(self) -> None:
        """Take what is too old out of the next shard."""
        self._swept = (self._swept + 1) % len(self._shards)
        shard, now = self._shards[self._swept], self._number()
        numbers = zip(shard[SIZE::_ENTRY], shard[SIZE + 1 :: _ENTRY], strict=True)
        old = [place for place, (high, low) in enumerate(numbers) if _is_old(now, high << 8 | low)]
        for place in reversed(old):
            del shard[place * _ENTRY : (place + 1) * _ENTRY]
        self._count -= len(old)

    def _number(self, at: float | None = None) -> int:
        return int((self._clock() if at is None else at) // self._width) % _NUMBERS


def _is_old(now: int, number: int) -> bool:
    # A very great age is that of a clock that is ahead of ours.
    return _IN_A_DAY < (now - number) % _NUMBERS < _NUMBERS // 2
