"""Which columns fit a topic's fields, at every depth."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)

import gearshift as gs
from gearshift.errors import CheckError
from gearshift.pipelines.records.writing import check_columns


@dataclass
class Place:
    street: str
    city: str


@dataclass
class Visit:
    place: Place
    others: list[Place]
    counts: dict[str, int]


app = gs.App("visits")
visits = app.topic("visits", value=Visit)


@app.pipeline(source=app.topic("said", value=Visit), to=visits, gear="batch")
def kept(said: DataFrame) -> DataFrame:
    return said


def struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in fields.items()])


TEXT, INT, LONG, NONE = StringType(), IntegerType(), LongType(), NullType()
PLACE = struct(street=TEXT, city=TEXT)
FITS: dict[str, DataType] = {
    "place": PLACE,
    "others": ArrayType(PLACE),
    "counts": MapType(TEXT, LONG),
}


def check(column: str, given: DataType) -> None:
    check_columns(struct(**{**FITS, column: given}), app.graph.pipelines["kept"], visits)


@pytest.mark.parametrize(
    ("column", "given"),
    [
        *FITS.items(),
        ("others", ArrayType(NONE)),
        ("counts", MapType(TEXT, INT)),
        ("counts", MapType(NONE, NONE)),
    ],
)
def test_fields_within_a_column_fit_by_name_and_kind(column: str, given: DataType) -> None:
    check(column, given)


@pytest.mark.parametrize(
    ("column", "given"),
    [
        ("place", struct(city=TEXT, street=TEXT)),  # a cast would exchange the two
        ("place", struct(road=TEXT, city=TEXT)),
        ("place", struct(street=TEXT)),
        ("place", struct(street=TEXT, city=TEXT, zip=TEXT)),
        ("place", struct(street=INT, city=TEXT)),
        ("others", ArrayType(struct(city=TEXT, street=TEXT))),
    ],
)
def test_other_fields_within_a_column_are_refused(column: str, given: DataType) -> None:
    with pytest.raises(CheckError) as caught:
        check(column, given)
    wanted = FITS[column].simpleString()
    assert caught.value.what == f"column {column} is {given.simpleString()} but Visit.{column} is {wanted}"
    assert caught.value.hint == (
        f"make it {wanted}: these fields, in this order (a cast matches them by position, not by name)"
    )


@pytest.mark.parametrize("given", [MapType(TEXT, TEXT), MapType(INT, LONG)])
def test_another_kind_within_a_column_is_refused(given: DataType) -> None:
    with pytest.raises(CheckError) as caught:
        check("counts", given)
    assert (
        caught.value.what == f"column counts is {given.simpleString()} but Visit.counts is map<string,bigint>"
    )
    assert caught.value.hint == "cast it to map<string,bigint>"
