"""Code that does not match its checkpoint is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gearshift.definitions import Location, Pipeline, Table, Topic
from gearshift.errors import ContinuityError
from gearshift.freshness import Freshness, Gear
from gearshift.pipelines.check.continuity import require_code
from gearshift.pipelines.check.origin import Origin, target_of
from gearshift.pipelines.ledger.ledger import Ledger
from gearshift.storage.folders import LocalFolder
from tests.flow import Event
from tests.spark_logs import SparkLogs

HERE = Location("app.py", 3)
EVENTS = Topic(name="events", value=Event, defined_at=HERE)
OTHERS = Topic(name="others", value=Event, defined_at=HERE)
PIPELINE = Pipeline(
    name="count",
    transform=lambda frame: frame,
    sources={"events": EVENTS},
    target=Table(name="counts", key=("key",), defined_at=HERE),
    freshness=Freshness(1, "second"),
    gear=Gear.NEAR_REAL_TIME,
    defined_at=HERE,
)
STATE = ("groupBy(key string): count(1) bigint",)


def context(root: Path, *pipelines: Pipeline) -> Any:
    """What the comparison needs from a context."""
    graph = SimpleNamespace(app="app", pipelines={pipeline.name: pipeline for pipeline in pipelines})
    return SimpleNamespace(
        graph=graph,
        settings=SimpleNamespace(checkpoints_uri=root.as_uri()),
        folder_of=lambda pipeline: f"{root.as_uri()}/app/{pipeline.name}",
        query_name=lambda pipeline: f"app.{pipeline.name}",
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The checkpoints of an app whose one pipeline has run."""
    folder = tmp_path / "app" / "count"
    SparkLogs(folder / "spark").born({"events": {0: 0}}).plan(0, {"events": {0: 9}})
    Ledger(LocalFolder(folder), "app", "count").begin(PIPELINE.gear, PIPELINE.gear, "run", datetime.now(UTC))
    Origin(topics={"events": "id"}, target=target_of(PIPELINE), state=STATE).write(LocalFolder(folder))
    return tmp_path


def refusal(root: Path, pipeline: Pipeline, state: tuple[str, ...] = STATE) -> str:
    with pytest.raises(ContinuityError) as raised:
        require_code(context(root, pipeline), pipeline, state)
    assert (raised.value.file, raised.value.line) == ("app.py", 3)
    return str(raised.value)


def test_the_same_code_goes_on_and_so_does_a_pipeline_that_is_new(root: Path) -> None:
    require_code(context(root, PIPELINE), PIPELINE, STATE)
    second = replace(PIPELINE, name="second")
    require_code(context(root, PIPELINE, second), second, STATE)  # `count` is declared still
    elsewhere = replace(PIPELINE, name="elsewhere", target=Table(name="elsewhere", defined_at=HERE))
    require_code(context(root, elsewhere), elsewhere, STATE)


def test_a_checkpoint_from_before_origins_were_kept_is_compared_by_its_topics_alone(root: Path) -> None:
    (root / "app/count/origin.json").unlink()
    require_code(context(root, PIPELINE), PIPELINE, ("something else",))
    assert "has read topic events" in refusal(root, replace(PIPELINE, sources={"others": OTHERS}))


@pytest.mark.parametrize(
    ("sources", "words"),
    [({"o": OTHERS}, "topic others"), ({"e": EVENTS, "o": OTHERS}, "topics events, others")],
)
def test_other_sources_are_refused(root: Path, sources: dict[str, Topic], words: str) -> None:
    message = refusal(root, replace(PIPELINE, sources=sources))
    assert f"its checkpoint has read topic events, but the code reads {words}" in message
    assert "start over with gearshift reset app.count" in message


def test_other_state_or_another_target_is_refused_until_it_is_accepted(root: Path) -> None:
    message = refusal(root, PIPELINE, ("Deduplicate(key string)",))
    assert f"it has state of {STATE[0]}, but the code needs state of Deduplicate(key string)" in message
    assert "gearshift reset app.count" in message and "gearshift resume app.count --accept-change" in message
    assert "but the code needs no state" in refusal(root, PIPELINE, ())
    moved = replace(PIPELINE, target=Table(name="counts", key=("key", "day"), defined_at=HERE))
    assert "wrote to table counts with key key and now writes to table counts with key key, day" in refusal(
        root, moved
    )


def test_a_pipeline_under_another_name_is_refused_until_it_is_renamed_or_reset(root: Path) -> None:
    renamed = replace(PIPELINE, name="tally")
    message = refusal(root, renamed)
    assert "pipeline tally looks like count renamed" in message
    assert "gearshift rename app.count tally" in message and "gearshift reset app.tally" in message
    Origin().write(LocalFolder(root / "app/tally"))  # what reset leaves
    require_code(context(root, renamed), renamed, STATE)
