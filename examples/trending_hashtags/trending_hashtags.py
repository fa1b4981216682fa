"""Trending hashtags: how many accounts use a tag in the last ten minutes, every minute, and the ten best.

What a tag is, and when two are the same, is in `hashtags.py`: Unicode's rules, which run in the JVM in every gear.

An account counts once per tag and window, so a burst of spam counts as one post. No gear has a rank over a stream. In
real-time an array replaces it: `top_tags_live` collects the counts of a window and sorts them. `rank_tags` ranks the
stored counts in batch, every hour, with shared places.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

from hashtags import hashtags
from loader import load
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from simulator import PER_MINUTE, simulate
from values import Burst, Post, TagCount, TopTags

import gearshift as gs

DATA = os.environ.get("GEARSHIFT_STORY_DATA")  # a file or folder of posts; without it they are simulated
SPEED = 20  # simulated minutes pass that much faster
# Later posts are not counted; a file is read faster than its time passes.
LATENESS = "7 days" if DATA else "1 hour"
BURST = 5  # posts of one account with one tag in a minute
BEST = 10

app = gs.App("trending-hashtags")
posts = app.topic("posts", value=Post, key="post_id", partitions=2)
bursts = app.topic("bursts", value=Burst, key="account")
tag_counts = app.topic("tag-counts", value=TagCount, key="tag", partitions=2)
top_tags = app.topic("top-tags", value=TopTags)
trends = app.table("trends", key=("tag", "window_start"), sequence_by="accounts")
ranked_tags = app.table("ranked_tags")

app.board(
    "trends",
    gs.Leaderboard(
        tag_counts, by="accounts", label="tag", key=("tag", "window_start"), newest="window_start", top=BEST
    ),
    gs.Feed(bursts, text="{account} posted #{tag} {posts} times", at="minute", level="warning"),
)


@app.source(
    to=posts,
    rate=2_000 if DATA else PER_MINUTE * SPEED / 60,
    seed=7,
    time_factor=SPEED,
    out_of_order=0.0 if DATA else 0.05,
    duplicates=0.0 if DATA else 0.02,
    max_delay="5 minutes",
)
def network(chance: random.Random) -> Iterator[Post]:
    """Posts of the file in the order of their time, or simulated ones."""
    return iter(sorted(load(Path(DATA)), key=lambda post: post.posted_at)) if DATA else simulate(chance)


@app.pipeline(source=posts, to=tag_counts, freshness="1 second")
def count_tags(posts: DataFrame) -> DataFrame:
    """The number of accounts per tag in each sliding window; a repeated post changes nothing."""
    return (
        hashtags(posts.withWatermark("posted_at", LATENESS))
        .select("tag", "account", F.window("posted_at", "10 minutes", "1 minute").alias("window"))
        .dropDuplicates(["tag", "account", "window"])  # exact; approx_count_distinct would be 5 % off
        .groupBy("tag", "window")
        .agg(F.count("*").alias("accounts"))
        .select(
            "tag",
            F.col("window.start").alias("window_start"),
            F.col("window.end").alias("window_end"),
            "accounts",
        )
    )


@app.pipeline(source=posts, to=bursts, freshness="1 second")
def find_bursts(posts: DataFrame) -> DataFrame:
    """Accounts that use one tag again and again within a minute."""
    return (
        hashtags(posts.withWatermark("posted_at", LATENESS))
        .dropDuplicates(["post_id", "tag", "posted_at"])
        .groupBy("account", "tag", F.window("posted_at", "1 minute").alias("window"))
        .agg(F.count("*").alias("posts"))
        .where(F.col("posts") >= BURST)
        .select("account", "tag", F.col("window.start").alias("minute"), "posts")
    )


@app.pipeline(source=tag_counts, to=top_tags, freshness="1 second")
def top_tags_live(tag_counts: DataFrame) -> DataFrame:
    """The best tags of each window; of equal counts the first in the alphabet. Counts only grow: the highest holds."""
    counts = F.array_sort(F.collect_set(F.struct((-F.col("accounts")).alias("less"), "tag")))
    tags = F.slice(F.array_distinct(F.col("counts.tag")), 1, BEST)
    best = F.transform(tags, lambda tag: F.filter("counts", lambda count: count["tag"] == tag)[0])
    place = F.transform(
        best, lambda count: F.struct(count["tag"].alias("tag"), (-count["less"]).alias("accounts"))
    )
    return (
        tag_counts.withWatermark("window_end", LATENESS)
        .groupBy("window_start", "window_end")
        .agg(counts.alias("counts"))
        .select("window_start", "window_end", place.alias("best"))
    )


@app.pipeline(source=tag_counts, to=trends, freshness="10 seconds")
def keep_trends(tag_counts: DataFrame) -> DataFrame:
    """The latest count per tag and window."""
    return tag_counts


@app.pipeline(source=trends, to=ranked_tags, freshness="1 hour")
def rank_tags(trends: DataFrame) -> DataFrame:
    """The best tags of each window; equal counts share a place."""
    place = F.rank().over(Window.partitionBy("window_start").orderBy(F.desc("accounts")))
    return trends.withColumn("place", place).where(F.col("place") <= BEST)
