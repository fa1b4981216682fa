"""Where sent records are: the offsets that the brokers gave them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gearshift.topics.producer import Receipt


@dataclass(slots=True)
class Placement:
    """The records of one send on one partition."""

    partition: int
    records: int
    first: int
    last: int


class PlacedReceipt(Receipt):
    """A receipt that also keeps the partition and the offsets of delivered records."""

    def __init__(self) -> None:
        super().__init__()
        self._placed: dict[int, Placement] = {}

    def delivered(self, error: Any, record: Any) -> None:
        """Delivery callback for librdkafka."""
        if error is None:
            partition, offset = record.partition(), record.offset()
            placed = self._placed.setdefault(partition, Placement(partition, 0, offset, offset))
            placed.records += 1
            placed.first, placed.last = min(placed.first, offset), max(placed.last, offset)
        super().delivered(error, record)

    @property
    def placements(self) -> list[Placement]:
        """The delivered records by partition."""
        return [self._placed[partition] for partition in sorted(self._placed)]
