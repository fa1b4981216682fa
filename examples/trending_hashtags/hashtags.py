"""The hashtags of a text.

A tag is a `#` (also `＃` and `﹟`), not after a letter, a digit, `&` or `/`, and the letters of any script, marks, digits,
joiners, `_` and `·` that follow, with at least one letter: the hashtags of Unicode (UAX #31) without emoji, `-` and `+`.
Tags are the same if they are after Unicode's full case folding (`ß`, `ẞ` and `SS` are `ss`, `ς` is `σ`), without the
dot that `İ` leaves on its `i`, without joiners and in NFC. Dotless `ı` and full-width letters stay letters of their own.

Spark has no function for this, but it ships ICU, whose static methods `reflect` calls inside the JVM, in every gear.
Its collations (`UNICODE_CI`) compare without case and composition too, but a column with one is not a key of state.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

LETTERS = r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}·"
HASHTAG = rf"(?<![{LETTERS}&/])[#＃﹟]([{LETTERS}]*\p{{L}}[{LETTERS}]*)"


def hashtags(posts: DataFrame) -> DataFrame:
    """A row for each tag of a post."""
    found = F.regexp_extract_all("text", F.lit(HASHTAG), F.lit(1))
    folded = F.reflect(F.lit("com.ibm.icu.lang.UCharacter"), F.lit("foldCase"), "written", F.lit(True))
    plain = F.regexp_replace(F.replace(folded, F.lit("i\u0307"), F.lit("i")), r"[\x{200C}\x{200D}]", "")
    tag = F.reflect(F.lit("com.ibm.icu.text.Normalizer"), F.lit("compose"), plain, F.lit(False))
    return posts.withColumn("written", F.explode(found)).withColumn("tag", tag)
