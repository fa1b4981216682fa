"""The values of the topics."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Post:
    """A public message of an account."""

    post_id: str
    account: str
    text: str
    posted_at: datetime


@dataclass(frozen=True)
class TagCount:
    """How many accounts used a tag in a window."""

    tag: str
    window_start: datetime
    window_end: datetime
    accounts: int


@dataclass(frozen=True)
class Place:
    """A tag among the best of a window."""

    tag: str
    accounts: int


@dataclass(frozen=True)
class TopTags:
    """The best tags of a window, the best first."""

    window_start: datetime
    window_end: datetime
    best: list[Place]


@dataclass(frozen=True)
class Burst:
    """An account that uses one tag again and again within a minute."""

    account: str
    tag: str
    minute: datetime
    posts: int
