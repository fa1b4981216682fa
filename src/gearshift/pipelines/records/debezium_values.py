"""SQL that parses the texts in Debezium's rows, by the column's type and by Connect's schema if there is one.

It is SQL because building the same expressions from Python columns takes seconds each time a pipeline is planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

_NAMES = {
    "decimal": ("org.apache.kafka.connect.data.Decimal", "io.debezium.data.VariableScaleDecimal"),
    "instant": (
        "org.apache.kafka.connect.data.Timestamp",
        "io.debezium.time.Timestamp",
        "io.debezium.time.MicroTimestamp",
        "io.debezium.time.NanoTimestamp",
        "io.debezium.time.ZonedTimestamp",
        "io.debezium.time.IsoTimestamp",
    ),
    "day": ("org.apache.kafka.connect.data.Date", "io.debezium.time.Date", "io.debezium.time.IsoDate"),
}
"""The logical types that only one declared type accepts."""
_INTEGER = "^-?[0-9]{1,19}$"
_WHOLE = "^-?[0-9]{1,40}[.]0*$"
_NUMBER = "^(-?[0-9]+)([.]([0-9]+))?([eE]([+-]?[0-9]{1,4}))?$"
_DAY = "^[0-9]{4}-[0-9]{2}-[0-9]{2}Z?$"
_INSTANT = (
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?"
    "(Z|[+-](0[0-9]|1[0-7]):[0-5][0-9])?$"
)
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # of the years 1 to 9999
_EARLIEST, _LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999  # microseconds of the years 1 to 9999

DESCRIBED = (
    StructType()
    .add("type", StringType())
    .add(
        "fields",
        ArrayType(
            StructType()
            .add("field", StringType())
            .add("type", StringType())
            .add(
                "fields",
                ArrayType(
                    StructType()
                    .add("field", StringType())
                    .add("type", StringType())
                    .add("name", StringType())
                    .add("parameters", MapType(StringType(), StringType()))
                ),
            )
        ),
    )
)
"""The part of Connect's schema of an envelope that is used: each column's logical type and a decimal's scale."""


def kinds(schema: str) -> str:
    """Connect's logical types by column: a map of names and scales; null without a schema."""
    row = f"get(filter({schema}.fields, part -> part.field = 'after'), 0).fields"
    scale = "try_element_at(one.parameters, 'scale')"
    entry = f"struct(one.field, struct(one.type, one.name, {scale} as scale))"
    return f"map_from_entries(transform({row}, one -> {entry}))"


def read_value(
    text: str, type_: DataType, kind: str, *, words: Sequence[str] = (), unsigned: str = "false"
) -> str:
    """The value of a text in the envelope, or null if it is not of this type, by the rules of
    `schemas.debezium.values`.

    `kind` is its entry in `kinds`; `words` are those of an Enum. `unsigned`: whether base64 may be MySQL's bigint.
    """
    own, value = _reading(text, type_, kind, words, unsigned)
    others = [name for names in _NAMES.values() for name in names if name not in own]
    refused = [f"{kind}.name IN ({_listed(others)})"]
    if not isinstance(type_, BinaryType):
        refused.append(
            f"({kind}.type = 'bytes' AND coalesce({kind}.name, '') NOT IN ({_listed(_NAMES['decimal'])}))"
        )
    if isinstance(type_, StringType):
        refused.append(f"{kind}.type IN ('float', 'double')")
    return f"if({' OR '.join(f'coalesce({one}, false)' for one in refused)}, NULL, {value})"


def _reading(
    text: str, type_: DataType, kind: str, words: Sequence[str], unsigned: str
) -> tuple[Sequence[str], str]:
    """The logical types that this type accepts, and the SQL that parses the text."""
    decimal = _NAMES["decimal"]
    match type_:
        case StringType():
            return (), f"if({text} IN ({_listed(words)}), {text}, NULL)" if words else text
        case BinaryType():
            return (), _octets(text)
        case DecimalType():
            return decimal, _let("t", _number(text, kind, unsigned), _exact("t", type_))
        case LongType():
            digits = f"if(t RLIKE '{_INTEGER}', try_cast(t AS bigint), NULL)"
            whole = f"coalesce({digits}, if(t RLIKE '{_WHOLE}', try_cast(substring_index(t, '.', 1) AS bigint), NULL))"
            logical = f"{kind}.name IN ({_listed(decimal)})"
            read = f"if(coalesce({logical}, false), {whole}, {digits})"
            return decimal, _let("t", _number(text, kind, unsigned), read)
        case DoubleType():
            return decimal, _let("t", _number(text, kind, "false"), _double("t"))
        case BooleanType():
            return (
                (),
                f"CASE WHEN {text} IN ('true', '1') THEN true WHEN {text} IN ('false', '0') THEN false END",
            )
        case TimestampType():
            return _NAMES["instant"], _instant(text, f"{kind}.name")
        case DateType():
            days = f"try_cast({text} AS bigint)"
            counted = f"if({days} BETWEEN {_FIRST_DAY} AND {_LAST_DAY}, date_add(DATE'1970-01-01', int({days})), NULL)"
            written = f"if({text} RLIKE '{_DAY}', try_cast(left({text}, 10) AS date), NULL)"
            return _NAMES["day"], f"if({text} RLIKE '{_INTEGER}', {counted}, {written})"
        case ArrayType(elementType=element) if not isinstance(element, ArrayType | MapType | StructType):
            items = f"gearshift.items(cast({text} AS binary))"
            item = read_value(
                "i", element, "named_struct('type', '', 'name', '', 'scale', '')", unsigned=unsigned
            )
            good = "true" if type_.containsNull else "forall(l, i -> i IS NOT NULL)"
            read = _let("l", f"transform({items}, i -> {item})", f"if({good}, l, NULL)")
            return (), f"if({text} LIKE '[%', {read}, NULL)"
        case _:
            return (), f"from_json({text}, '{type_.simpleString()}')"


def quoted(name: str) -> str:
    """A quoted name in Spark SQL.

    >>> quoted("a`b")
    '`a``b`'
    """
    return f"`{name.replace('`', '``')}`"


def literal(text: str) -> str:
    """A string literal in Spark SQL.

    >>> literal("it's")
    "'it\\\\'s'"
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _let(name: str, value: str, body: str) -> str:
    """Name a part of an expression: a lambda over an array of one element."""
    return f"get(transform(array({value}), {name} -> {body}), 0)"


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(literal(text) for text in texts) or "''"


def _instant(text: str, kind: str) -> str:
    number = f"if({text} RLIKE '{_INTEGER}', try_cast({text} AS bigint), NULL)"
    units = {
        "io.debezium.time.MicroTimestamp": number,
        "io.debezium.time.NanoTimestamp": f"({number} div 1000) - if({number} % 1000 < 0, 1, 0)",
        "io.debezium.time.Timestamp": f"try_multiply({number}, 1000L)",
        "org.apache.kafka.connect.data.Timestamp": f"try_multiply({number}, 1000L)",
    }
    written = f"if({text} RLIKE '{_INSTANT}', unix_micros(try_cast({text} AS timestamp)), NULL)"
    cases = " ".join(f"WHEN '{name}' THEN {micros}" for name, micros in units.items())
    found = f"CASE {kind} {cases} ELSE {written} END"
    return instant(found)


def instant(micros: str) -> str:
    """The timestamp of a number of microseconds; null outside the years 1 to 9999."""
    return _let("us", micros, f"timestamp_micros(if(us BETWEEN {_EARLIEST} AND {_LATEST}, us, NULL))")


def _double(text: str) -> str:
    """A number in the range of a double, or NaN or an infinity."""
    number = f"if({text} RLIKE '{_NUMBER}', try_cast({text} AS double), NULL)"
    finite = _let("n", number, "if(abs(n) = double('Infinity'), NULL, n)")
    return f"if({text} IN ('NaN', 'Infinity', '-Infinity'), try_cast({text} AS double), {finite})"


def _number(text: str, kind: str, unsigned: str) -> str:
    """The text of a number in any of Debezium's encodings."""
    variable = f"from_json({text}, 'scale string, value string')"
    plain = text
    if unsigned != "false":
        bigint = f"{unsigned} AND {text} RLIKE '^[A-Za-f][A-Za-z0-9+/]*={{0,2}}$' AND length({text}) <= 12"
        plain = f"if({bigint}, substring_index({_unscaled(text, '0')}, '.', 1), {text})"
    scale = f"coalesce({kind}.scale, '0')"
    return (
        f"CASE {kind}.name WHEN 'org.apache.kafka.connect.data.Decimal' THEN {_unscaled(text, scale)} "
        f"WHEN 'io.debezium.data.VariableScaleDecimal' THEN "
        f"{_let('v', variable, _unscaled('v.value', 'v.scale'))} ELSE {plain} END"
    )


def _exact(text: str, type_: DecimalType) -> str:
    """The decimal with all its digits; null if it would have to be rounded."""
    part = f"regexp_extract({text}, '{_NUMBER}', %d)"
    whole, behind = part % 1, part % 3
    exponent = f"coalesce(try_cast({part % 5} AS int), 0)"
    stripped = f"rtrim('0', concat({whole}, {behind}))"
    # The digits after the point, without trailing zeros.
    places = f"(length({stripped}) - length({whole}) - {exponent})"
    zero = f"{stripped} RLIKE '^-?$'"
    # Spark counts trailing zeros as digits, and rounds to 34 digits if there are more than 38.
    written = f"if({zero}, '0', concat({stripped}, 'E', -{places}))"
    fits = f"({zero} OR {places} <= {type_.scale}) AND ({part % 5} = '' OR try_cast({part % 5} AS int) IS NOT NULL)"
    return f"if({text} RLIKE '{_NUMBER}' AND {fits}, try_cast({written} AS {type_.simpleString()}), NULL)"


def _octets(text: str) -> str:
    good = f"{text} RLIKE '^[A-Za-z0-9+/]*={{0,2}}$' AND length({text}) % 4 = 0"
    return f"if({good}, try_to_binary({text}, 'base64'), NULL)"


def _unscaled(text: str, scale: str) -> str:
    """A decimal as text, from the base64 of a Java BigInteger of at most 16 bytes."""
    filled = "lpad(h, 32, if(substring(h, 1, 1) >= '8', 'F', '0'))"
    high = f"cast(conv(substring({filled}, 1, 16), 16, -10) AS decimal(20,0))"
    low = f"cast(conv(substring({filled}, 17, 16), 16, 10) AS decimal(20,0))"
    number = f"try_add(try_multiply({high}, cast('18446744073709551616' AS decimal(20,0))), {low})"
    digits = "lpad(cast(abs(n) AS string), 40, '0')"
    places = f"if({scale} RLIKE '^[0-9]{{1,2}}$', try_cast({scale} AS int), -1)"
    # The added zero ensures a digit after the point.
    written = (
        f"concat(if(n < 0, '-', ''), left({digits}, 40 - {places}), '.', right({digits}, {places}), '0')"
    )
    return _let(
        "h",
        f"hex({_octets(text)})",
        f"if(length(h) BETWEEN 2 AND 32 AND {places} BETWEEN 0 AND 38, {_let('n', number, written)}, NULL)",
    )
