"""Who gets scarce task slots: the promises that only real-time keeps."""

from __future__ import annotations

from collections.abc import Mapping


def wanted_of(lacking: Mapping[str, int], free: int) -> dict[str, int]:
    """The task slots that each pipeline is asked to give up: those that others lack and that are not free.

    >>> wanted_of({"alerts": 3, "counts": 0}, free=1)
    {'alerts': 0, 'counts': 2}
    """
    total = sum(lacking.values())
    return {name: max(0, total - own - free) if not own else 0 for name, own in lacking.items()}
