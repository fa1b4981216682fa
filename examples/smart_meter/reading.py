"""What a meter sends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass
class MeterReading:
    """The mean load of a minute."""

    meter_id: str
    load_kw: float
    read_at: datetime
