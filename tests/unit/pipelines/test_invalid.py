"""A condition is generated only if the row's type allows the problem."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

import pytest
from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

import gearshift as gs
from gearshift.definitions import Location, Topic
from gearshift.pipelines.records.invalid_rows import is_bounded, misfits


@dataclass
class Priced:
    n: int
    price: Annotated[Decimal, gs.DecimalOf(12, 2)] | None


@dataclass
class Named:
    name: str


def topic(value: type) -> Topic:
    return Topic(name="t", value=value, defined_at=Location(__file__, 1))


def row(n: StructField, price: DataType) -> StructType:
    return StructType([n, StructField("price", price, True)])


NEVER_NULL = StructField("n", LongType(), False)


@pytest.mark.parametrize("price", [DecimalType(12, 2), DecimalType(10, 0), DecimalType(11, 2), IntegerType()])
def test_what_can_not_be_wrong_is_not_asked_for(price: DataType) -> None:
    assert misfits(row(NEVER_NULL, price), topic(Priced)) == []


@pytest.mark.parametrize("price", [DecimalType(13, 2), DecimalType(12, 1), DecimalType(13, 3), LongType()])
def test_a_decimal_with_more_digits_is_tried(price: DataType) -> None:
    (found,) = misfits(row(NEVER_NULL, price), topic(Priced))
    assert found.reason == "price does not fit decimal(12,2)"


def test_only_a_column_that_may_hold_nulls_is_asked_for_them() -> None:
    (found,) = misfits(row(StructField("n", LongType(), True), DecimalType(12, 2)), topic(Priced))
    assert (found.condition, found.reason) == ("`n` IS NULL", "required field n is null")


def test_only_what_may_be_long_is_measured() -> None:
    assert is_bounded(topic(Priced))
    assert not is_bounded(topic(Named))


def test_json_has_no_words_for_what_is_no_number() -> None:
    @dataclass
    class Load:
        kw: float

    given = StructType([StructField("kw", DoubleType(), False)])
    assert misfits(given, topic(Load)) == []
    as_json = Topic(name="t", value=Load, format="json", defined_at=Location(__file__, 1))
    assert [found.reason for found in misfits(given, as_json)] == [
        "kw is NaN or infinite, which JSON cannot hold"
    ]
