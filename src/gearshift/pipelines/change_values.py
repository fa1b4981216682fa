"""The values in Debezium's rows, as SQL that reads their texts: by the column's type, and by Connect's schema if one comes along.

SQL, because a tree of columns that is built from Python takes seconds, each time that a pipeline is planned.
"""

from __future__ import annotations

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

DESCRIBED = StructType().add(
    "fields",
    ArrayType(
        StructType()
        .add("field", StringType())
        .add(
            "fields",
            ArrayType(
                StructType()
                .add("field", StringType())
                .add("name", StringType())
                .add("parameters", MapType(StringType(), StringType()))
            ),
        )
    ),
)
"""What we look at in Connect's schema of an envelope: of each column the logical type and, of a decimal, the scale."""


def kinds(schema: str) -> str:
    """Connect's logical types by column: a map of names and scales; null without a schema."""
    row = f"get(filter({schema}.fields, part -> part.field = 'after'), 0).fields"
    entry = "struct(one.field, struct(one.name, try_element_at(one.parameters, 'scale') as scale))"
    return f"map_from_entries(transform({row}, one -> {entry}))"


def read_value(text: str, type_: DataType, kind: str) -> str:
    """The value that a text of the envelope is, or null where it is none of this type; `kind` is its entry in `kinds`."""
    match type_:
        case StringType():
            return text
        case BinaryType():
            return f"try_to_binary({text}, 'base64')"
        case DecimalType():
            return _decimal(text, type_, kind)
        case TimestampType():
            return _instant(text, f"{kind}.name")
        case DateType():
            days = f"date_add(DATE'1970-01-01', try_cast({text} AS int))"
            day = f"try_cast(trim(TRAILING 'Z' FROM {text}) AS date)"
            return f"if({text} RLIKE '^-?[0-9]+$', {days}, {day})"
        case ArrayType() | MapType() | StructType():
            return f"from_json({text}, '{type_.simpleString()}')"
        case _:
            return f"try_cast({text} AS {type_.simpleString()})"


def quoted(name: str) -> str:
    """A name as Spark quotes it.

    >>> quoted("a`b")
    '`a``b`'
    """
    return f"`{name.replace('`', '``')}`"


def literal(text: str) -> str:
    """A text as Spark quotes it.

    >>> literal("it's")
    "'it\\\\'s'"
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _let(name: str, value: str, body: str) -> str:
    """SQL has no names for parts of an expression; a lambda over an array of one has."""
    return f"get(transform(array({value}), {name} -> {body}), 0)"


def _instant(text: str, kind: str) -> str:
    number = f"try_cast({text} AS bigint)"
    units = {
        "io.debezium.time.MicroTimestamp": number,
        "io.debezium.time.NanoTimestamp": f"({number} - pmod({number}, 1000)) div 1000",
        "io.debezium.time.Timestamp": f"try_multiply({number}, 1000L)",
        "org.apache.kafka.connect.data.Timestamp": f"try_multiply({number}, 1000L)",
    }
    cases = " ".join(
        f"WHEN '{name}' THEN "
        + _let("us", micros, f"timestamp_micros(if(us BETWEEN {_EARLIEST} AND {_LATEST}, us, NULL))")
        for name, micros in units.items()
    )
    return f"CASE {kind} {cases} ELSE try_cast({text} AS timestamp) END"


def _decimal(text: str, type_: DecimalType, kind: str) -> str:
    """The number with all its digits: one that would have to be rounded is none of this type."""
    variable = f"from_json({text}, 'scale string, value string')"
    number = (
        f"CASE {kind}.name WHEN 'org.apache.kafka.connect.data.Decimal' THEN {_unscaled(text, f'{kind}.scale')} "
        f"WHEN 'io.debezium.data.VariableScaleDecimal' THEN "
        f"{_let('v', variable, _unscaled('v.value', 'v.scale'))} ELSE {text} END"
    )
    exact = f"try_cast(d AS {type_.simpleString()})"
    if type_.scale < 18:
        whole = "try_cast(d AS decimal(38,18))"
        exact = f"if({whole} IS NULL OR {whole} = {exact}, {exact}, NULL)"
    return _let("d", number, exact)


def _unscaled(text: str, scale: str) -> str:
    """A decimal as text, of the base64 of its digits as Java's BigInteger has them, 16 bytes at the most."""
    filled = "lpad(h, 32, if(substring(h, 1, 1) >= '8', 'F', '0'))"
    high = f"cast(conv(substring({filled}, 1, 16), 16, -10) AS decimal(20,0))"
    low = f"cast(conv(substring({filled}, 17, 16), 16, 10) AS decimal(20,0))"
    number = f"try_add(try_multiply({high}, cast('18446744073709551616' AS decimal(20,0))), {low})"
    digits = "lpad(cast(abs(n) AS string), 40, '0')"
    places = f"coalesce(try_cast({scale} AS int), 0)"
    written = f"concat(if(n < 0, '-', ''), left({digits}, 40 - {places}), '.', right({digits}, {places}))"
    return _let(
        "h",
        f"hex(try_to_binary({text}, 'base64'))",
        f"if(length(h) BETWEEN 2 AND 32 AND {places} BETWEEN 0 AND 38, {_let('n', number, written)}, NULL)",
    )
