"""The network: seeded posts with the hashtags that people really type, and accounts that try to push one.

The same tag comes in capitals, in composed and decomposed letters, in scripts with joiners and combining marks and
behind a full-width sign; numbers, anchors of links and HTML entities only look like tags. The app's source adds the
late and repeated posts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from values import Post

BEGAN = datetime(2026, 3, 1, 18, 0, tzinfo=UTC)
PER_MINUTE = 60
PEOPLE = 80
BOTS = ("bot-1", "bot-2")
BURST = 8
"""How many posts with one tag a bot sends within a few seconds."""

SPELLINGS = (
    ("#Goal", "#GOAL", "#goal", "＃ｇｏａｌ #goal"),
    ("#Straße", "#STRASSE", "#STRAẞE", "#strasse"),
    ("#İstanbul", "#istanbul", "#ISTANBUL", "#I\u0307stanbul"),
    ("#café", "#cafe\u0301", "#CAFÉ", "#CAFE\u0301"),
    ("#ΟΔΟΣ", "#οδος", "#Οδος", "#οδοσ"),
    ("#東京", "＃東京", "﹟東京"),
    ("#हिन्दी", "#हिन्दी!"),
    ("#می\u200cخواهم", "#میخواهم"),
    ("#100days", "#100DAYS", "#100Days"),
    ("#snake_case", "#Snake_Case"),
    ("#paral·lel", "#PARAL·LEL"),
)
"""The ways in which people write one tag; every row is one tag (the first has a second one, in full-width letters)."""

NOT_TAGS = (
    "#2026",
    "#1",
    "mail#me",
    "it&#x27;s",
    "https://example.org/#top",
    "#",
    "#🎉",
    "## ",
    "C# is fine",
)
WORDS = ("what a night", "so good", "who else?", "wow 🎉", "line one\nline two", "naïve", "“quoted”", "100 %")


def simulate(chance: random.Random, minutes: int | None = None) -> Iterator[Post]:
    """Posts in the order of their time, without an end unless `minutes` is given."""
    number, minute = 0, 0
    while minutes is None or minute < minutes:
        # A different tag rises every ten minutes.
        weights = [12 if place == minute // 10 % len(SPELLINGS) else 2 for place in range(len(SPELLINGS))]
        made = [_person(chance, weights) for _ in range(PER_MINUTE)]
        if minute % 5 == 3:
            bot, pushed = chance.choice(BOTS), chance.choice(SPELLINGS)[0]
            second = chance.uniform(0, 50)
            made += [(second + chance.uniform(0, 9), bot, f"buy now {pushed}") for _ in range(BURST)]
        for second, account, text in sorted(made):
            number += 1
            at = BEGAN + timedelta(minutes=minute, milliseconds=int(second * 1000))
            yield Post(f"p{number:07}", account, text, at)
        minute += 1


def _person(chance: random.Random, weights: list[int]) -> tuple[float, str, str]:
    """The second within its minute, the account and the text of a post with up to three tags."""
    tags = chance.choices(SPELLINGS, weights, k=chance.choice((0, 1, 1, 1, 2, 3)))
    parts = [chance.choice(WORDS), *(chance.choice(spellings) for spellings in tags)]
    if chance.random() < 0.2:
        parts.append(chance.choice(NOT_TAGS))
    chance.shuffle(parts)
    return (
        chance.uniform(0, 60),
        f"user-{chance.randrange(PEOPLE):03}",
        chance.choice((" ", "  ", ", ")).join(parts),
    )
