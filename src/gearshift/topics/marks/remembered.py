"""A compact in-memory set of the records delivered within the last day, at about twenty bytes each."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from threading import Lock

SIZE = 12
"""Bytes of a digest; the probability of a collision among ten million is about 1 in 10^15."""
_ENTRY = SIZE + 2  # a digest and the number of its quarter of an hour
_IN_A_DAY = 96
_NUMBERS = 1 << 16
_SHARD = 64  # entries of a shard on average: bytes.find searches them in a fraction of a microsecond
_SWEEP_EVERY = 16  # additions: every shard is swept once for each third of the entries that is added


class Remembered:
    """The digests of one partition, each kept for a day to a day and a quarter of an hour.

    The entries are stored in many short byte arrays; a Python set would take a hundred bytes for each. Shards are
    split one at a time (linear hashing) and swept one at a time, so no call waits for all of them.

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
        """The offset up to which the partition's marks were read."""
        self._width = kept.total_seconds() / _IN_A_DAY
        self._clock = clock
        self._shards = [bytearray()]
        self._half = 1  # the number of shards, a power of two, before the present round of splits
        self._count = 0
        self._added = 0
        self._swept = 0
        self._lock = Lock()

    def add(self, digest: bytes, at: float | None = None) -> None:
        """Add a digest, as of now or of a Unix time."""
        number = self._number(at)
        with self._lock:
            shard, index = self._find(digest)
            if index >= 0:
                shard[index + SIZE : index + _ENTRY] = number.to_bytes(2)
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
            shard, index = self._find(digest)
            if index < 0:
                return False
            return not _is_old(self._number(), int.from_bytes(shard[index + SIZE : index + _ENTRY]))

    def discard(self, digest: bytes) -> None:
        """Remove a digest."""
        with self._lock:
            shard, index = self._find(digest)
            if index >= 0:
                del shard[index : index + _ENTRY]
                self._count -= 1

    def __len__(self) -> int:
        """The number of digests, including expired ones that are not swept yet."""
        return self._count

    def _find(self, digest: bytes) -> tuple[bytearray, int]:
        """The shard of a digest, and its index in it or -1."""
        shards, half = self._shards, self._half
        number = hash(digest) % (half + half)
        shard = shards[number if number < len(shards) else number - half]
        index = shard.find(digest)
        while index % _ENTRY and index >= 0:  # a match across two entries
            index = shard.find(digest, index + 1)
        return shard, index

    def _split(self) -> None:
        """Add a shard and move its entries to it."""
        old, size = len(self._shards) - self._half, 2 * self._half
        kept, moved = bytearray(), bytearray()
        shard = bytes(self._shards[old])
        for index in range(0, len(shard), _ENTRY):
            half = kept if hash(shard[index : index + SIZE]) % size == old else moved
            half += shard[index : index + _ENTRY]
        self._shards[old] = kept
        self._shards.append(moved)
        if len(self._shards) == 2 * self._half:
            self._half *= 2

    def _sweep(self) -> None:
        """Remove expired entries from the next shard."""
        self._swept = (self._swept + 1) % len(self._shards)
        shard, now = self._shards[self._swept], self._number()
        numbers = zip(shard[SIZE::_ENTRY], shard[SIZE + 1 :: _ENTRY], strict=True)
        old = [index for index, (high, low) in enumerate(numbers) if _is_old(now, high << 8 | low)]
        for index in reversed(old):
            del shard[index * _ENTRY : (index + 1) * _ENTRY]
        self._count -= len(old)

    def _number(self, at: float | None = None) -> int:
        return int((self._clock() if at is None else at) // self._width) % _NUMBERS


def _is_old(now: int, number: int) -> bool:
    # A very large age means that the writer's clock is ahead of ours.
    return _IN_A_DAY < (now - number) % _NUMBERS < _NUMBERS // 2
