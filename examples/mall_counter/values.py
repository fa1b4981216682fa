"""The values of the topics."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

STREET = "street"


@dataclass(frozen=True, slots=True)
class DoorReport:
    """How many people a door's sensor saw enter and leave a zone; a door reports once for each time.

    Behind the door is the street or another zone: who enters through an inner door leaves that other zone.
    """

    door: str
    zone: str
    beyond: str
    entered: int
    left: int
    counted_at: datetime


@dataclass
class PeopleNow:
    zone: str
    business_day: date
    people: int
    entered: int
    left: int
    counted_at: datetime


@dataclass
class Crowding:
    zone: str
    business_day: date
    capacity: int
    people: int
    is_full: bool
    crossings: int
    full_since: datetime


@dataclass
class GuardCall:
    zone: str
    text: str
