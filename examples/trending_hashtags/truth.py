"""The same answers in plain Python, from the Unicode database of Python and without a regular expression."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from values import Post

MINUTE = timedelta(minutes=1)
HASHES = "#＃﹟"
JOINERS = "\u200c\u200d"

Counts = dict[tuple[datetime, str], int]


def fold(tag: str) -> str:
    """One spelling for all the ways to write a tag.

    >>> fold("STRAẞE"), fold("İstanbul") == fold("ISTANBUL"), fold("cafe\u0301") == "café", fold("ΟΔΟΣ")
    ('strasse', True, True, 'οδοσ')
    """
    folded = tag.casefold().replace("i\u0307", "i")
    return unicodedata.normalize("NFC", "".join(each for each in folded if each not in JOINERS))


def belongs(character: str) -> bool:
    """Whether a tag may contain the character."""
    kind = unicodedata.category(character)
    return kind[0] in "LM" or kind in ("Nd", "Nl", "Pc") or character in "·" + JOINERS


def tags_of(text: str) -> list[str]:
    """The different tags of a text, in order, folded.

    >>> tags_of("#Goal in ＃東京! #2026 a#b &#x27; https://example.org/#top #GOAL")
    ['goal', '東京']
    """
    found: list[str] = []
    for place, character in enumerate(text):
        before = text[place - 1] if place else " "
        if character not in HASHES or belongs(before) or before in "&/":
            continue
        end = place + 1
        while end < len(text) and belongs(text[end]):
            end += 1
        tag = text[place + 1 : end]
        if any(unicodedata.category(each)[0] == "L" for each in tag) and fold(tag) not in found:
            found.append(fold(tag))
    return found


def distinct(posts: Iterable[Post]) -> list[Post]:
    """The posts without repetitions."""
    return list({post.post_id: post for post in posts}.values())


def counts(posts: Iterable[Post]) -> Counts:
    """For each window of ten minutes, which begin every minute, and each tag: how many accounts used it."""
    users: dict[tuple[datetime, str], set[str]] = defaultdict(set)
    for post in posts:
        last = post.posted_at.replace(second=0, microsecond=0)
        for tag in tags_of(post.text):
            for back in range(10):
                users[last - back * MINUTE, tag].add(post.account)
    return {place: len(accounts) for place, accounts in users.items()}


def live(counted: Counts, size: int = 10) -> dict[datetime, list[tuple[str, int]]]:
    """Tag and accounts of the best tags of each window, the best first; of equal counts the first in the alphabet."""
    windows: dict[datetime, list[tuple[str, int]]] = defaultdict(list)
    for (start, tag), accounts in counted.items():
        windows[start].append((tag, accounts))
    return {
        start: sorted(tags, key=lambda entry: (-entry[1], entry[0].encode()))[:size]
        for start, tags in windows.items()
    }


def bursts(posts: Iterable[Post], least: int = 5) -> dict[tuple[str, str, datetime], int]:
    """The accounts that used one tag in at least five posts within a minute of the clock."""
    found: dict[tuple[str, str, datetime], int] = defaultdict(int)
    for post in distinct(posts):
        for tag in tags_of(post.text):
            found[post.account, tag, post.posted_at.replace(second=0, microsecond=0)] += 1
    return {place: number for place, number in found.items() if number >= least}


def top(counted: Counts, size: int = 10) -> set[tuple[datetime, int, str, int]]:
    """Window, place, tag and accounts of the best tags of each window; tags with equal counts share a place."""
    windows: dict[datetime, list[tuple[int, str]]] = defaultdict(list)
    for (start, tag), accounts in counted.items():
        windows[start].append((accounts, tag))
    ranked: set[tuple[datetime, int, str, int]] = set()
    for start, tags in windows.items():
        for accounts, tag in tags:
            place = 1 + sum(other > accounts for other, _ in tags)
            if place <= size:
                ranked.add((start, place, tag, accounts))
    return ranked
