"""What a value type may hold, and what is refused and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Optional
from uuid import uuid4

import pytest

from gearshift.errors import SchemaError
from gearshift.schemas import DecimalOf, avro_schema, describe, json_schema, spark_schema
from gearshift.schemas.shapes import ListOf, OptionalOf, Scalar


class Tariff(Enum):
    DAY = "day"
    NIGHT = "night"


class Level(Enum):
    LOW = 1
    HIGH = 2


@dataclass
class Place:
    street: str
    number: int | None = None


@dataclass
class Reading:
    meter_id: str
    place: Place
    second_place: Optional[Place]  # noqa: UP045 - the older spelling must work as well
    tariff: Tariff = Tariff.DAY
    level: Level = Level.LOW
    price: Annotated[Decimal, DecimalOf(12, 2)] = Decimal("1.25")
    loads: list[float | None] = field(default_factory=list[float | None])


@dataclass
class Node:
    name: str
    parent: Node | None = None


@dataclass
class Stamped:
    id: str = field(default_factory=lambda: str(uuid4()))


@dataclass
class WithTime:
    at: time


@dataclass
class WithIntKeys:
    counts: dict[int, str]


@dataclass
class WithUnion:
    either: int | str


@dataclass
class WithWrongDefault:
    load_kw: float = "high"  # type: ignore[assignment]


@dataclass
class WithNan:
    load_kw: float = float("nan")


@dataclass
class WithMarkedInt:
    load: Annotated[int, DecimalOf(3, 1)]


@dataclass
class WithComputed:
    load: int
    double: int = field(init=False, default=0)


@dataclass
class WithUnicodeName:
    größe: int


@dataclass
class Empty:
    pass


def test_a_dataclass_becomes_one_description() -> None:
    shape = describe(Reading)
    assert shape.name == "Reading"
    fields = {each.name: each for each in shape.fields}
    assert fields["meter_id"].shape is Scalar.STRING
    assert fields["price"].shape == DecimalOf(12, 2)
    assert fields["loads"].shape == ListOf(OptionalOf(Scalar.DOUBLE))
    assert fields["loads"].has_default
    assert not fields["second_place"].has_default


def test_the_avro_schema_has_the_defaults_of_the_dataclass() -> None:
    fields = {each["name"]: each for each in avro_schema(Reading)["fields"]}
    assert fields["tariff"] == {"name": "tariff", "type": "string", "default": "day"}
    assert fields["level"]["default"] == "LOW"
    assert fields["price"]["type"] == {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
    assert fields["price"]["default"] == "}"  # 125 as a byte
    assert fields["second_place"] == {"name": "second_place", "type": ["null", "Place"]}
    assert fields["place"]["type"]["fields"][1] == {
        "name": "number",
        "type": ["null", "long"],
        "default": None,
    }


def test_an_optional_with_a_default_other_than_none_puts_its_branch_first() -> None:
    @dataclass
    class Load:
        load_kw: float | None = 2.5

    assert avro_schema(Load)["fields"] == [{"name": "load_kw", "type": ["double", "null"], "default": 2.5}]


def test_the_json_schema_is_closed_and_requires_what_has_no_default() -> None:
    schema = json_schema(Reading)
    assert schema["required"] == ["meter_id", "place", "second_place"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["price"] == {"type": "string", "default": "1.25"}


def test_the_spark_schema_reads_as_spark_writes_it() -> None:
    fields = {each["name"]: each for each in spark_schema(Reading)["fields"]}
    assert fields["price"] == {"name": "price", "type": "decimal(12,2)", "nullable": False, "metadata": {}}
    assert fields["loads"]["type"] == {"type": "array", "elementType": "double", "containsNull": True}
    assert fields["second_place"]["nullable"] is True
    assert fields["second_place"]["type"]["type"] == "struct"


def test_spark_takes_the_spark_schema_as_its_own() -> None:
    from pyspark.sql.types import StructType

    assert StructType.fromJson(spark_schema(Reading)).jsonValue() == spark_schema(Reading)


def test_a_factory_that_gives_something_new_each_time_is_no_default() -> None:
    assert not describe(Stamped).fields[0].has_default
    assert avro_schema(Stamped) == {
        "type": "record",
        "name": "Stamped",
        "fields": [{"name": "id", "type": "string"}],
    }


@pytest.mark.parametrize(
    ("value_type", "words"),
    [
        (Node, "Node contains itself (Node → Node)"),
        (WithTime, "WithTime.at is time, which has no schema"),
        (WithIntKeys, "WithIntKeys.counts is a dict with int keys"),
        (WithUnion, "WithUnion.either is a union of 2 types"),
        (
            WithWrongDefault,
            "the default of WithWrongDefault.load_kw does not fit its type: is str, not float",
        ),
        (WithNan, "a default of WithNan is not a finite number"),
        (WithMarkedInt, "WithMarkedInt.load is int, marked DecimalOf"),
        (WithComputed, "WithComputed.double is not set by the constructor"),
        (WithUnicodeName, "'größe' cannot be the name of a field"),
        (Empty, "Empty has no fields"),
        (int, "int is not a dataclass"),
    ],
)
def test_what_has_no_schema_is_refused_by_name(value_type: type[Any], words: str) -> None:
    with pytest.raises(SchemaError) as raised:
        avro_schema(value_type)
    assert words in str(raised.value)
    assert raised.value.hint


def test_two_classes_of_one_name_are_refused() -> None:
    first = Place

    @dataclass
    class Place2:
        city: str

    Place2.__name__ = "Place"

    @dataclass
    class Both:
        one: Any
        two: Any

    Both.__annotations__ = {"one": first, "two": Place2}
    with pytest.raises(SchemaError, match="two classes are named Place"):
        describe(Both)


def test_an_impossible_decimal_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"decimal\(39, 2\) is not possible"):
        DecimalOf(39, 2)
