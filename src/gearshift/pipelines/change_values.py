"""The values in Debezium's rows, as Spark reads them: by the column's type, and by Connect's schema where there is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

_EARLIEST, _LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999  # microseconds of the years 1 to 9999
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_VARIABLE_SCALE = "io.debezium.data.VariableScaleDecimal"
_MICROSECONDS_OF = {
    "io.debezium.time.MicroTimestamp": (1, 1),
    "io.debezium.time.NanoTimestamp": (1, 1000),
    "io.debezium.time.Timestamp": (1000, 1),
    "org.apache.kafka.connect.data.Timestamp": (1000, 1),
}
_COLUMN = (
    StructType()
    .add("field", StringType())
    .add("name", StringType())
    .add("parameters", MapType(StringType(), StringType()))
)


@dataclass(frozen=True, slots=True)
class Described:
    """What Connect's schema says of a row; of each column its logical type and, of a decimal, the scale."""

    row: Column

    TYPE: ClassVar[StructType] = StructType().add(
        "fields",
        ArrayType(StructType().add("field", StringType()).add("fields", ArrayType(_COLUMN))),
    )

    def of(self, column: str) -> Column:
        """The description of one column; null where the record comes without a schema."""
        return F.get(F.filter(self.row["fields"], lambda one: one["field"] == column), 0)


def read_value(text: Column, type_: DataType, described: Column) -> Column:
    """The value that a text of the envelope is; null where it is none of this type."""
    name = described["name"]
    match type_:
        case StringType():
            return text
        case BinaryType():
            return F.try_to_binary(text, F.lit("base64"))
        case DecimalType():
            scale = F.coalesce(F.try_element_at(described["parameters"], F.lit("scale")), F.lit("0"))
            variable = F.from_json(text, "scale string, value string")
            number = (
                F.when(name == _DECIMAL, _unscaled(text, scale))
                .when(name == _VARIABLE_SCALE, _unscaled(variable["value"], variable["scale"]))
                .otherwise(text)
            )
            return _decimal(number, type_)
        case TimestampType():
            return _instant(text, name)
        case DateType():
            days = text.try_cast("int")
            return F.when(
                text.rlike(r"^-?\d+$"), F.date_add(F.lit("1970-01-01").cast("date"), days)
            ).otherwise(F.regexp_replace(text, "Z$", "").try_cast("date"))
        case ArrayType() | MapType() | StructType():
            return F.from_json(text, type_, {"mode": "PERMISSIVE"})
        case _:
            return text.try_cast(type_)


def _instant(text: Column, name: Column) -> Column:
    number = text.try_cast("bigint")
    chosen = F.when(name.isNull(), F.lit(None).cast("bigint"))
    for logical, (times, by) in _MICROSECONDS_OF.items():
        whole = (number - F.pmod(number, F.lit(by))).cast("decimal(20,0)")
        micros = (whole / by).cast("bigint") if by > 1 else F.try_multiply(number, F.lit(times))
        chosen = chosen.when(name == logical, micros)
    bounded = F.when(chosen.between(_EARLIEST, _LATEST), chosen)
    return F.when(name.isin(*_MICROSECONDS_OF), F.timestamp_micros(bounded)).otherwise(
        text.try_cast("timestamp")
    )


def _decimal(text: Column, type_: DecimalType) -> Column:
    """The number with all its digits: one that has to be rounded is none of this type."""
    number = text.try_cast(type_)
    if type_.scale >= 18:
        return number
    whole = text.try_cast(DecimalType(38, 18))
    return F.when(whole.isNull() | (whole == number), number)


def _unscaled(text: Column, scale: Column) -> Column:
    """A decimal as text, of the base64 of its digits as Java's BigInteger has them: 16 bytes at the most."""
    octets = F.try_to_binary(text, F.lit("base64"))
    first = F.conv(F.hex(F.substring(octets, 1, 1)), 16, 10).cast("int")
    filled = F.lpad(F.hex(octets), 32, "0")
    negative = first >= 128
    padded = F.when(negative, F.lpad(F.hex(octets), 32, "F")).otherwise(filled)
    high = F.conv(F.substring(padded, 1, 16), 16, -10).try_cast("decimal(20,0)")
    low = F.conv(F.substring(padded, 17, 16), 16, 10).try_cast("decimal(20,0)")
    number = F.try_add(F.try_multiply(high, F.lit("18446744073709551616").cast("decimal(20,0)")), low)
    digits = F.lpad(F.abs(number).cast("string"), 40, "0")
    places = scale.try_cast("int")
    with_point = F.concat(
        F.when(number < 0, F.lit("-")).otherwise(F.lit("")),
        F.left(digits, F.lit(40) - places),
        F.lit("."),
        F.right(digits, places),
    )
    return F.when(F.length(octets).between(1, 16) & places.between(0, 38), with_point)
