"""Exponential backoff: the delay between retries."""

from __future__ import annotations

from datetime import timedelta


class Backoff:
    """A delay that doubles from `first` to `longest` with each retry.

    >>> backoff = Backoff(first=timedelta(seconds=1), longest=timedelta(seconds=3))
    >>> [backoff.next().total_seconds() for _ in range(3)]
    [1.0, 2.0, 3.0]
    """

    def __init__(self, *, first: timedelta, longest: timedelta) -> None:
        self._first = first
        self._longest = longest
        self._delay = first

    def next(self) -> timedelta:
        """The delay before the next retry."""
        delay = self._delay
        self._delay = min(delay * 2, self._longest)
        return delay

    def reset(self) -> None:
        """Start again at `first`, after a success."""
        self._delay = self._first
