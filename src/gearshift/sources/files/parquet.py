"""Reads Parquet files: Arrow converts the columns to the types of the fields, batch by batch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import pyarrow as _pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet as _parquet  # pyright: ignore[reportMissingTypeStubs]

from gearshift.errors import WrongFileError
from gearshift.schemas.encoding import Convert, Misfit
from gearshift.schemas.json.decoding import Decoding, decoder, no_field
from gearshift.schemas.shapes import (
    DecimalOf,
    EnumOf,
    ListOf,
    MapOf,
    OptionalOf,
    RecordOf,
    Scalar,
    Shape,
    describe,
)
from gearshift.sources.files.parquet_probe import BATCH_ROWS, MEMORY_LIMIT, OUT_OF_MEMORY, ParquetProbe
from gearshift.sources.files.rows import FileReader, FileRow, digest_of

pa, pq = cast("Any", _pyarrow), cast("Any", _parquet)  # they have no type stubs
Batch = Column = Schema = Any
_ALWAYS_ALLOWED_ROWS = 1_000_000
_MAX_ROWS_PER_BYTE = 100  # even repeated values take more space than this
_PROBE = ParquetProbe()
# The exception for a value that cannot be converted depends on the step that finds it.
_UNFIT: tuple[type[Exception], ...] = (pa.ArrowException, ValueError, OverflowError, TypeError)
_SCALARS: dict[Scalar, Any] = {
    Scalar.STRING: pa.string(),
    Scalar.LONG: pa.int64(),
    Scalar.DOUBLE: pa.float64(),
    Scalar.BOOLEAN: pa.bool_(),
    Scalar.BYTES: pa.binary(),
    # Spark writes timestamps to Parquet without a zone and means UTC; the same is assumed for others.
    Scalar.TIMESTAMP: pa.timestamp("us", "UTC"),
    Scalar.DATE: pa.date32(),
}


def _survey(file: BinaryIO, value_type: type[Any]) -> str:
    digest = digest_of(file)
    shape = describe(value_type)
    try:
        opened = _open(file)
        _require_columns(opened.schema_arrow, shape)
        rows: int = opened.metadata.num_rows
    except (*_UNFIT, OSError) as error:
        raise _damaged(_first_line(error)) from None
    size = os.fstat(file.fileno()).st_size
    if rows > max(_ALWAYS_ALLOWED_ROWS, size * _MAX_ROWS_PER_BYTE):
        raise WrongFileError(
            f"it claims {rows:,} rows in {size:,} bytes", hint="write the rows to several files"
        )
    why = _PROBE.decode(file)  # a damaged page is found before the first row is sent
    if why == OUT_OF_MEMORY:
        raise WrongFileError(
            f"{BATCH_ROWS:,} of its rows take more than {MEMORY_LIMIT >> 20} MB of memory",
            hint="write smaller values, with pages of the default size",
        )
    if why is not None:
        raise _damaged(why)
    file.seek(0)
    return digest


def _damaged(why: str) -> WrongFileError:
    return WrongFileError(f"it is not a complete Parquet file: {why}", hint="copy it again")


def _rows(file: BinaryIO, value_type: type[Any]) -> Iterator[FileRow]:
    shape = describe(value_type)
    to_value = decoder(shape, _PLAIN)
    number = 0
    for batch in _open(file).iter_batches(BATCH_ROWS):
        target = pa.schema(
            [
                (name, _type(field.shape))
                for name in batch.schema.names
                for field in shape.fields
                if field.name == name
            ]
        )
        for at, found in enumerate(_converted(batch, target)):
            value: Any = None
            misfit = found if isinstance(found, Misfit) else None
            if not isinstance(found, Misfit):
                try:
                    value = to_value(found)
                except Misfit as unfit:
                    misfit = unfit
            number += 1
            yield FileRow(number, value, misfit, lambda batch=batch, at=at: _original(batch, at))


def _open(file: BinaryIO) -> Any:
    return pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)


def _converted(batch: Batch, target: Schema) -> Iterator[dict[str, Any] | Misfit]:
    """The rows as plain values; if one does not fit, row by row to find it."""
    try:
        yield from _plain(batch, target)
    except _UNFIT:
        for at in range(batch.num_rows):
            try:
                yield _plain(batch.slice(at, 1), target)[0]
            except _UNFIT:
                yield _misfit(batch.slice(at, 1), target)


def _plain(batch: Batch, target: Schema) -> list[dict[str, Any]]:
    columns = [_cast(column, field.type) for column, field in zip(batch.columns, target, strict=True)]
    whole = pa.RecordBatch.from_arrays(columns, schema=target)
    return cast("list[dict[str, Any]]", whole.to_pylist(maps_as_pydicts="strict"))


def _cast(column: Column, wanted: Any) -> Column:
    # Arrow cannot cast every dictionary-encoded column directly.
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return plain if plain.type == wanted else plain.cast(wanted)


def _misfit(row: Batch, target: Schema) -> Misfit:
    for name, column, field in zip(row.schema.names, row.columns, target, strict=True):
        try:
            _cast(column, field.type).to_pylist(maps_as_pydicts="strict")
        except _UNFIT as error:
            return Misfit(_first_line(error), (name,))
    return Misfit("cannot be converted")


def _original(batch: Batch, at: int) -> bytes:
    row = batch.slice(at, 1)
    found = dict[str, Any]()
    for name, column in zip(row.schema.names, row.columns, strict=True):
        try:
            found[name] = column.to_pylist()[0]
        except _UNFIT:
            found[name] = str(column[0])
    return json.dumps(found, default=str, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _require_columns(schema: Schema, shape: RecordOf) -> None:
    by_name = {field.name: field for field in shape.fields}
    try:
        for column in schema:
            if column.name not in by_name:
                raise no_field(shape, column.name)
            if schema.names.count(column.name) > 1:
                raise Misfit("appears twice", (column.name,))
            wanted = _type(by_name[column.name].shape)
            try:
                _cast(pa.array([], column.type), wanted)
            except _UNFIT:
                raise Misfit(f"is {column.type}, not {wanted}", (column.name,)) from None
        for field in shape.fields:
            if field.name not in schema.names and not field.has_default:
                raise Misfit("has no column", (field.name,))
    except Misfit as misfit:
        raise WrongFileError(
            f"its columns do not fit {shape.name}: {misfit}", hint="use the names and types of the fields"
        ) from None


def _type(shape: Shape) -> Any:
    if isinstance(shape, Scalar):
        return _SCALARS[shape]
    if isinstance(shape, DecimalOf):
        return pa.decimal128(shape.precision, shape.scale)
    if isinstance(shape, EnumOf):
        return pa.string()
    if isinstance(shape, ListOf):
        return pa.list_(_type(shape.item))
    if isinstance(shape, MapOf):
        return pa.map_(pa.string(), _type(shape.value))
    if isinstance(shape, OptionalOf):
        return _type(shape.item)
    return pa.struct([(field.name, _type(field.shape)) for field in shape.fields])


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _present(datum: Any) -> Any:
    if datum is None:
        raise Misfit("is null")
    return datum


def _decimal(_: DecimalOf) -> Convert:
    return _present


_PLAIN = Decoding(dict.fromkeys(Scalar, _present), _decimal, closed=True)
PARQUET = FileReader((".parquet",), b"PAR1", _survey, _rows)
