"""Delays and duplicates a share of the records, as networks and retries do; deterministic for a seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from random import Random
from typing import TypeVar

T = TypeVar("T")


def disordered(
    values: Iterable[T], chance: Random, *, out_of_order: float, duplicates: float, reach: int
) -> Iterator[T]:
    """The values, of which some come up to `reach` positions late and some are repeated up to `reach` later.

    >>> list(disordered(range(8), Random(3), out_of_order=0.3, duplicates=0.2, reach=3))
    [1, 2, 0, 3, 4, 5, 6, 4, 7]
    """
    later: list[tuple[int, int, T]] = []
    for position, value in enumerate(values):
        late = chance.random() < out_of_order
        twice = chance.random() < duplicates
        if late:
            heappush(later, (position + chance.randint(1, reach), 2 * position, value))
        else:
            yield value
        if twice:
            heappush(later, (position + chance.randint(1, reach), 2 * position + 1, value))
        while later and later[0][0] <= position:
            yield heappop(later)[2]
    while later:
        yield heappop(later)[2]
