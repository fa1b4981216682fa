"""Supported value types, and the errors for unsupported ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import time
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Optional
from uuid import uuid4

import pytest

from gearshift.errors import SchemaError
from gearshift.schemas import Alias, DecimalOf, avro_schema, describe, json_schema, spark_schema
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
class WithInnerAlias:
    name: Annotated[str, Alias("label")] | None


@dataclass
class WithSharedAlias:
    name: Annotated[str, Alias("label")]
    label: str


@dataclass
class WithUnicodeAlias:
    name: Annotated[str, Alias("größe")]


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
    assert fields["tariff"] == {
        "name": "tariff",
        "type": {"type": "string", "gearshift.members": ["day", "night"]},
        "default": "day",
    }
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
    assert schema["properties"]["price"] == {
        "type": "string",
        "gearshift.decimal": [12, 2],
        "default": "1.25",
    }
    assert schema["properties"]["tariff"]["enum"] == ["day", "night"]


def test_the_spark_schema_reads_as_spark_writes_it() -> None:
    fields = {each["name"]: each for each in spark_schema(Reading)["fields"]}
    assert fields["price"] == {"name": "price", "type": "decimal(12,2)", "nullable": False, "metadata": {}}
    assert fields["loads"]["type"] == {"type": "array", "elementType": "double", "containsNull": True}
    assert fields["second_place"]["nullable"] is True
    assert fields["second_place"]["type"]["type"] == "struct"


def test_spark_accepts_the_spark_schema() -> None:
    from pyspark.sql.types import StructType

    assert StructType.fromJson(spark_schema(Reading)).jsonValue() == spark_schema(Reading)


def test_a_renamed_field_keeps_its_former_names() -> None:
    @dataclass
    class Renamed:
        meter_id: Annotated[str, Alias("meter"), Alias("id")]
        price: Annotated[Decimal, DecimalOf(4, 1), Alias("cost")] = Decimal(0)

    meter, price = describe(Renamed).fields
    assert (meter.aliases, price.aliases, price.shape) == (("meter", "id"), ("cost",), DecimalOf(4, 1))
    assert avro_schema(Renamed)["fields"][0] == {
        "name": "meter_id",
        "type": "string",
        "aliases": ["meter", "id"],
    }


def test_a_factory_with_a_new_value_each_time_is_not_a_default() -> None:
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
            "the default of WithWrongDefault.load_kw does not match its type: is str, not float",
        ),
        (WithNan, "a default of WithNan is not a finite number"),
        (WithMarkedInt, "WithMarkedInt.load is int, marked DecimalOf"),
        (WithComputed, "WithComputed.double is not set by the constructor"),
        (WithUnicodeName, "'größe' cannot be the name of a field"),
        (WithInnerAlias, "WithInnerAlias.name has Alias inside its type"),
        (
            WithSharedAlias,
            "WithSharedAlias.name has the alias 'label', which is also a name of WithSharedAlias.label",
        ),
        (WithUnicodeAlias, "'größe' cannot be the name of a field"),
        (Empty, "Empty has no fields"),
        (int, "int is not a dataclass"),
    ],
)
def test_an_unsupported_type_is_an_error_by_name(value_type: type[Any], words: str) -> None:
    with pytest.raises(SchemaError) as raised:
        avro_schema(value_type)
    assert words in str(raised.value)
    assert raised.value.hint


@pytest.mark.parametrize(
    ("value_type", "written"),
    [(WithTime, "at: time"), (WithUnicodeName, "größe: int"), (Empty, "class Empty")],
)
def test_the_error_names_the_line_of_the_field_or_of_the_class(value_type: type[Any], written: str) -> None:
    with pytest.raises(SchemaError) as raised:
        avro_schema(value_type)
    assert raised.value.line is not None and raised.value.file is not None
    line = Path(raised.value.file).read_text(encoding="utf-8").splitlines()[raised.value.line - 1]
    assert line.strip().startswith(written)


def test_two_classes_with_one_name_are_an_error() -> None:
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


def test_an_invalid_decimal_is_an_error() -> None:
    with pytest.raises(SchemaError, match=r"invalid type decimal\(39, 2\)"):
        DecimalOf(39, 2)
