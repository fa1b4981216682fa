"""A dataclass that changed, and what the registry that `gearshift up` starts makes of it, in Avro and in JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

import gearshift as gs
from gearshift.connection import Connection
from gearshift.definitions import Format, Topic
from gearshift.errors import IncompatibleSchemaError
from gearshift.schemas import Registry
from tests.support import registry_client


class Tariff(Enum):
    DAY = "day"
    NIGHT = "night"


class MoreTariffs(Enum):
    DAY = "day"
    NIGHT = "night"
    HOLIDAY = "holiday"


@dataclass
class Place:
    street: str


@dataclass
class NumberedPlace:
    street: str
    number: int


@dataclass
class FoundPlace:
    street: str
    floor: int | None = None


NumberedPlace.__name__ = FoundPlace.__name__ = "Place"


def reading(annotations: dict[str, Any], **defaults: Any) -> type[Any]:
    return dataclass(
        type("Reading", (), {"__annotations__": annotations, "__module__": __name__, **defaults})
    )


@pytest.fixture
def registry(connection: Connection) -> Iterator[Registry]:
    with Registry(connection) as registry:
        yield registry


def declared(name: str, value: type[Any], format: Format) -> Topic:  # noqa: A002 - the word users know
    return gs.App("evolution").topic(name, value=value, format=format)


FORMATS = pytest.mark.parametrize("format", ["avro", "json"])
PRICE = Annotated[Decimal, gs.DecimalOf(8, 2)]


@FORMATS
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (reading({"a": int}), reading({"a": int, "b": str}, b="")),
        (reading({"a": int}), reading({"a": int, "b": str | None}, b=None)),
        (reading({"a": int}), reading({"a": int, "b": list[Place]}, b=gs.App)),
        (reading({"a": int, "b": str}), reading({"a": int})),
        (reading({"a": int, "b": str}, b=""), reading({"a": int})),
        (reading({"a": str}), reading({"a": str | None})),
        (reading({"a": str}), reading({"a": str | None}, a=None)),
        (reading({"a": str}), reading({"a": str}, a="")),
        (reading({"a": int}), reading({"a": float})),
        (reading({"a": int}), reading({"a": float | None})),
        (reading({"a": list[int]}), reading({"a": list[float | None]})),
        (reading({"a": dict[str, int]}), reading({"a": dict[str, float]})),
        (reading({"a": Place}), reading({"a": FoundPlace})),
        (reading({"a": Place}), reading({"a": FoundPlace | None})),
        (reading({"a": FoundPlace}), reading({"a": Place})),
        (reading({"a": Tariff}), reading({"a": MoreTariffs})),
        (reading({"a": Tariff}), reading({"a": str})),
        (reading({"a": PRICE}), reading({"a": Annotated[Decimal, gs.DecimalOf(12, 2)]})),
        (reading({"old": str}), reading({"new": Annotated[str, gs.Alias("old")]})),
        (
            reading({"old": int, "b": str}),
            reading({"new": Annotated[float | None, gs.Alias("old")], "b": str}),
        ),
        (
            reading({"new": Annotated[int, gs.Alias("old")]}),
            reading({"new": Annotated[float, gs.Alias("old")], "b": str}, b=""),
        ),
    ],
)
def test_a_compatible_change_is_registered(
    registry: Registry,
    unique: str,
    old: type[Any],
    new: type[Any],
    format: Format,  # noqa: A002 - as above
) -> None:
    if new.__dict__.get("b") is gs.App:  # a default that is made anew for each value
        from dataclasses import field

        new = reading({"a": int, "b": list[Place]}, b=field(default_factory=list))
    first = registry.register(declared(unique, old, format))
    second = registry.register(declared(unique, new, format))
    assert list(registry.versions(f"{unique}-value")) == [first, second]
    # Who runs the older version goes on: what it registered is there.
    assert registry.register(declared(unique, old, format)) == first
    assert registry.register(declared(unique, new, format)) == second


@FORMATS
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            reading({"a": int}),
            reading({"a": int, "b": str}),
            "field b was added without a default; give it a default",
        ),
        (
            reading({"old": str}),
            reading({"new": str}),
            'field new was added without a default; give it a default, or if it was renamed, Alias("old")',
        ),
        (
            reading({"a": int}),
            reading({"a": int, "new": Annotated[str, gs.Alias("other")]}),
            "field new was added without a default",
        ),
        (reading({"a": float}), reading({"a": int}), "field a changed from"),
        (reading({"a": int}), reading({"a": str}), "field a changed from"),
        (reading({"a": str}), reading({"a": datetime}), "field a changed from string to"),
        (reading({"a": datetime}), reading({"a": date}), "field a changed from"),
        (reading({"a": str}), reading({"a": Tariff}), "field a changed from string to"),
        (reading({"a": str}), reading({"a": Decimal}), "field a changed from string to decimal(38, 18)"),
        (
            reading({"a": PRICE}),
            reading({"a": Annotated[Decimal, gs.DecimalOf(6, 2)]}),
            "field a changed from decimal(8, 2) to decimal(6, 2)",
        ),
        (reading({"a": int | None}), reading({"a": int}), "field a may no longer be null; keep it"),
        (
            reading({"a": MoreTariffs}),
            reading({"a": Tariff}),
            "field a may no longer be holiday; keep the values that old records may have",
        ),
        (reading({"a": Place}), reading({"a": NumberedPlace}), "field a.number was added without a default"),
        (
            reading({"a": list[Place]}),
            reading({"a": list[NumberedPlace]}),
            "field a[].number was added without a default",
        ),
        (reading({"a": list[int]}), reading({"a": dict[str, int]}), "field a changed from array to"),
    ],
)
def test_an_incompatible_change_is_refused_with_its_field_and_nothing_is_changed(
    connection: Connection,
    registry: Registry,
    unique: str,
    old: type[Any],
    new: type[Any],
    words: str,
    format: Format,  # noqa: A002 - as above
) -> None:
    first = registry.register(declared(unique, old, format))
    with pytest.raises(IncompatibleSchemaError) as raised:
        registry.register(declared(unique, new, format))
    assert words in str(raised.value)
    assert list(registry.versions(f"{unique}-value")) == [first]
    with SchemaRegistryClient(registry_client(connection)) as client:
        assert client.get_versions(f"{unique}-value") == [1]


def test_a_removed_json_field_can_come_back_only_as_what_old_records_hold(
    registry: Registry, unique: str
) -> None:
    for value in (reading({"a": int, "b": str}), reading({"a": int}), reading({"a": int, "c": int}, c=0)):
        registry.register(declared(unique, value, "json"))
    with pytest.raises(IncompatibleSchemaError, match="field b changed from string to integer"):
        registry.register(declared(unique, reading({"a": int, "b": int}, b=0), "json"))
    registry.register(declared(unique, reading({"a": int, "b": str}, b=""), "json"))
    assert len(registry.versions(f"{unique}-value")) == 4


@FORMATS
def test_a_type_goes_through_all_its_changes(
    registry: Registry,
    unique: str,
    format: Format,  # noqa: A002 - as above
) -> None:
    """Renames and removals stay compatible with every version, and an alias that old records need cannot go."""
    meter = Annotated[str, gs.Alias("meter")]
    versions = [
        reading({"meter": str, "load": int, "note": str}),
        reading({"meter": str, "load": int, "note": str, "unit": str}, unit="kW"),
        reading({"meter": str, "load": int, "note": str | None, "unit": str}, unit="kW"),
        reading({"meter_id": meter, "load": int, "note": str | None, "unit": str}, unit="kW"),
        reading({"meter_id": meter, "load": float, "note": str | None, "unit": str}, unit="kW"),
        reading({"meter_id": meter, "load": float, "unit": str}, unit="kW"),
        reading({"meter_id": meter, "load": float, "unit": str, "at": date | None}, unit="kW", at=None),
    ]
    ids = [registry.register(declared(unique, each, format)) for each in versions]
    assert len(set(ids)) == len(versions)
    assert [registry.register(declared(unique, each, format)) for each in versions] == ids
    if format == "json":  # in Avro the newest version says only what its own records hold
        with pytest.raises(IncompatibleSchemaError, match="field meter_id is now required"):
            registry.register(declared(unique, reading({"meter_id": str, "load": float}), format))
