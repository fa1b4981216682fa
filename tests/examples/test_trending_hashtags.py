"""The trending hashtags: public files of posts, the same counts in every gear and in plain Python, and the demo."""

from __future__ import annotations

import gzip
import random
import zipfile
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gearshift.errors import WrongFileError
from gearshift.freshness import Gear
from gearshift.testing import Run, Transform
from tests import stories
from tests.demos import tell

DATA = Path(__file__).parents[1] / "data" / "trending_hashtags"
network = stories.load("trending_hashtags", "trending_hashtags")
loader = stories.load("trending_hashtags", "loader")
simulator = stories.load("trending_hashtags", "simulator")
truth = stories.load("trending_hashtags", "truth")
values = stories.load("trending_hashtags", "values")

EVERY_GEAR = (Gear.BATCH, Gear.NEAR_REAL_TIME, Gear.REAL_TIME)
AWKWARD = {"late": 0.05, "repeated": 0.02, "disorder": timedelta(minutes=5)}
POSTS = list(simulator.simulate(random.Random(7), 9))
TEN_MINUTES = timedelta(minutes=10)


@pytest.mark.parametrize(
    ("file", "posts"),
    [
        (
            "sentiment140.csv",
            [
                ("1467810369", "_TheSpecialOne_", "2009-04-07T05:19:45+00:00", ["fail"]),
                ("1467811193", "Karoli", "2009-04-07T05:19:57+00:00", ["café", "fail"]),
                ("1467811372", "joy_wolf", "2009-04-07T05:20:00+00:00", ["fail"]),
            ],
        ),
        (  # a notice between the posts is none, and a retweet has the whole text
            "api_v1.jsonl",
            [
                ("1050118621198921728", "6253282", "2018-10-10T20:19:24+00:00", ["emoji"]),
                ("2", "77", "2018-10-10T20:19:30+00:00", ["at", "東京"]),
            ],
        ),
        (
            "api_v2.jsonl",
            [
                ("1228393702244134912", "2244994945", "2020-02-14T19:00:55+00:00", ["प्रेम"]),
                ("9", "783214", "2020-02-14T23:00:00+00:00", []),
            ],
        ),
        (
            "export.csv",
            [
                ("1", "ann", "2023-05-01T12:00:00+00:00", ["one"]),
                ("2", "bob", "2023-05-01T12:00:01+00:00", ["two"]),
            ],
        ),
        (  # without ids
            "covid19_tweets.csv",
            [
                ("covid19_tweets:2", "Dan", "2020-07-25T12:27:21+00:00", ["stayhome"]),
                ("covid19_tweets:4", "Eve", "2020-07-25T12:27:17+00:00", ["covid19"]),
            ],
        ),
        ("ira.csv", [("877919995476496385", "249064136", "2017-06-22T16:03:00+00:00", ["news"])]),
    ],
)
def test_public_files_of_posts_are_read_as_they_are(
    file: str, posts: list[tuple[str, str, str, list[str]]]
) -> None:
    assert [
        (post.post_id, post.account, post.posted_at.isoformat(), truth.tags_of(post.text))
        for post in loader.load(DATA / file)
    ] == posts


def test_archives_and_folders_are_read_like_the_files_in_them(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress((DATA / "api_v2.jsonl").read_bytes()))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(DATA / "sentiment140.csv", "training.csv")
        archive.writestr("__MACOSX/._training.csv", b"\0\xff")
    (tmp_path / ".DS_Store").write_bytes(b"\0\xff")
    (tmp_path / "README.md").write_text("Posts of 2009.")
    assert list(loader.load(tmp_path)) == [
        *loader.load(DATA / "sentiment140.csv"),
        *loader.load(DATA / "api_v2.jsonl"),
    ]


def test_columns_may_be_separated_by_semicolons(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("tweet_id;date;user;tweet\n1;2023-05-01 12:00:00;ann;so, #good\n")
    assert [post.text for post in loader.load(tmp_path / "t.csv")] == ["so, #good"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,date,user,text\n1,2023-05-01,a,x\n\n2,gestern,a,x\n", r"'gestern' cannot be read .*posts:4"),
        ("id,date,user,text\n1,2023-05-01,a,one,two\n", r"5 columns where the first row has 4 .*posts:2"),
        ("id,date,user,text\n1,2023-05-01,a,x\n,2023-05-01,a,x\n", r"a post without post_id .*posts:3"),
        ('id,date,user,text\n1,2023-05-01,a,"x\n2,2023-05-01,a,x\n', r"a quote is not closed .*posts:2"),
        ("id,when,user,text\n", r"no column for posted_at .*posts:1"),
        ('{"id": "1"}\n', r"a post without posted_at, account.* .*posts:1"),
        (
            '{"id": "1", "created_at": "2023-05-01T12:00:00Z", "author_id": "7", "text": ""}\n{"id":\n',
            r"not a JSON document.*posts:2",
        ),
        ('[\n{"id": "1"},\n{"id"\n]', r"neither a JSON document per line nor one in all.*posts:4"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "posts").write_text(content)
    with pytest.raises(WrongFileError, match=message) as refused:
        list(loader.load(tmp_path / "posts"))
    assert refused.value.hint


def test_a_missing_or_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "posts.gz").write_bytes(b"no archive")
    (tmp_path / "posts.zip").write_bytes(b"no archive")
    for name in ("posts", "posts.gz", "posts.zip"):
        with pytest.raises(WrongFileError, match=f"cannot be read.*{name}"):
            list(loader.load(tmp_path / name))


def test_the_simulated_network_is_the_same_for_a_seed_and_pushes_tags() -> None:
    assert list(simulator.simulate(random.Random(7), 9)) == POSTS
    assert list(simulator.simulate(random.Random(8), 9)) != POSTS
    assert {account for account, _, _ in truth.bursts(POSTS)} <= set(simulator.BOTS)
    assert len(truth.bursts(POSTS)) == 2
    # Every way to write a tag is one tag, whatever the script.
    assert len({truth.fold(tag) for spellings in simulator.SPELLINGS for tag in spellings[0].split()}) == len(
        simulator.SPELLINGS
    )


def test_tags_are_found_and_folded_as_in_plain_python(gearshift_transform: Transform) -> None:
    texts = [
        *(spelling for spellings in simulator.SPELLINGS for spelling in spellings),
        *simulator.NOT_TAGS,
        "#a#b ##c (#d) é#e _#f /#g &#h #i-j #k·l #12 #1a #a1_ #ſ #ﬁ #ŉ #ẞ #ς #ǅ #ΐ #Ω #K",
        "#نص #עברית #ไทย #한국어 #日本語テスト #हिन्दी #à #à #ÀB #😀x #x😀 #Ⅷ ﹟one ＃two",
    ]
    at = datetime(2026, 3, 1, 18, 0, 30, tzinfo=UTC)
    posts = [values.Post(f"p{number}", f"a{number}", text, at) for number, text in enumerate(texts)]
    counts = gearshift_transform(network.app, network.count_tags, {"posts": posts})
    assert {(count.window_start, count.tag): count.accounts for count in counts} == truth.counts(posts)


def test_counts_are_the_same_in_every_gear_and_in_plain_python(gearshift_run: Run) -> None:
    results = gearshift_run(network.app, network.count_tags, {"posts": POSTS}, **AWKWARD)
    expected = [
        values.TagCount(tag, start, start + TEN_MINUTES, accounts)
        for (start, tag), accounts in truth.counts(POSTS).items()
    ]
    results.assert_each(expected, key=("tag", "window_start"))
    assert results.gears == EVERY_GEAR


def test_bursts_are_the_same_in_every_gear_and_in_plain_python(gearshift_run: Run) -> None:
    results = gearshift_run(network.app, network.find_bursts, {"posts": POSTS}, **AWKWARD)
    expected = [values.Burst(*place, posts) for place, posts in truth.bursts(POSTS).items()]
    results.assert_each(expected, key=("account", "tag", "minute"))
    assert results.gears == EVERY_GEAR


def test_the_best_tags_of_each_window_are_the_same_in_every_gear_and_in_plain_python(
    gearshift_run: Run,
) -> None:
    counted = truth.counts(POSTS)
    # A count reaches the topic more than once, as it grows.
    updates = [
        values.TagCount(tag, start, start + TEN_MINUTES, part)
        for (start, tag), accounts in sorted(counted.items())
        for part in {(accounts + 1) // 2, accounts}
    ]
    results = gearshift_run(
        network.app, network.top_tags_live, {"tag-counts": updates}, **AWKWARD, event_time="window_end"
    )
    expected = [
        values.TopTags(start, start + TEN_MINUTES, [values.Place(*place) for place in best])
        for start, best in truth.live(counted).items()
    ]
    results.assert_each(expected, key="window_start")
    assert results.gears == EVERY_GEAR


def test_a_batch_ranks_each_window_with_shared_places(gearshift_run: Run) -> None:
    counted = truth.counts(POSTS)
    trends = [
        asdict(values.TagCount(tag, start, start + TEN_MINUTES, accounts))
        for (start, tag), accounts in counted.items()
    ]
    results = gearshift_run(network.app, network.rank_tags, {"trends": trends})
    found = {(row["window_start"], row["place"], row["tag"], row["accounts"]) for row in results[Gear.BATCH]}
    assert found == truth.top(counted)
    assert len(found) > len({(start, place) for start, place, _, _ in found})


def test_the_demo_shows_what_rises_and_who_pushes_it(tmp_path: Path) -> None:
    told = tell("trending_hashtags", tmp_path)
    assert "count_tags: real-time → near-real-time" in told.output
    assert "count_tags: near-real-time → real-time" in told.output
    assert any(bot in told.output for bot in simulator.BOTS)
    [(windows, places)] = told.ask("SELECT count(DISTINCT window_start), max(place) FROM ranked_tags")
    assert windows >= 10
    assert places <= network.BEST
