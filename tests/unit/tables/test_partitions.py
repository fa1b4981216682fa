"""Folder names and partition values."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.errors import TableError
from gearshift.tables.partitions import layout_of, values_in

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(texts, texts)
def test_an_escaped_value_is_read_back(name: str, value: str) -> None:
    folder = f"{quote(name, safe='')}={quote(value, safe='')}"
    assert values_in([folder]) == {name: value}
    assert layout_of(f"gearshift_write=1/{folder}/part.parquet", {name: value}) == "write"


def test_a_value_that_java_could_not_encode_is_an_error() -> None:
    with pytest.raises(
        TableError, match=r"does not use UTF-8 for file names; start Spark with LC_ALL=C\.UTF-8"
    ):
        values_in(["place=?"])


@pytest.mark.parametrize(
    "path",
    ["part.parquet", "somewhere/day=1/part.parquet", "day=2/part.parquet", "place=x/day=1/part.parquet"],
)
def test_a_path_with_other_values_is_not_used(path: str) -> None:
    assert layout_of(path, {"day": "1"}) is None
