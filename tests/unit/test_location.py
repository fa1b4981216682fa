"""One folder, in the form that Spark, delta-rs and Python each expect."""

from __future__ import annotations

from pathlib import Path

import pytest

from gearshift.errors import TableError
from gearshift.storage.location import as_uri, local_path, require_for_delta, spark_path


@pytest.mark.parametrize("name", ["mein Projekt ü%20#1", "a?b&c", "%", "[1]", "日本"])
def test_a_path_comes_back_from_its_uri_and_goes_to_spark_as_it_is(name: str) -> None:
    path = Path("/data") / name
    assert local_path(as_uri(str(path))) == local_path(str(path)) == path
    assert spark_path(as_uri(str(path))) == f"file:{path}"


@pytest.mark.parametrize("name", ["a%20b", "[1]", "a|b", "a^b", "a\\b"])
def test_a_warehouse_that_delta_cannot_open_is_refused(name: str) -> None:
    with pytest.raises(TableError, match=r"Delta cannot open.*warehouse setting"):
        require_for_delta(as_uri(f"/data/{name}/warehouse"))


@pytest.mark.parametrize("place", ["/data/mein Projekt ü #1", "/data/50%", "s3://bucket/a%20b"])
def test_any_other_warehouse_is_taken(place: str) -> None:
    require_for_delta(as_uri(place))
