"""Rows that write themselves to Parquet the way a Spark DataFrame is asked to, in microseconds and without Spark."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gearshift.definitions import Location, Table
from gearshift.tables.partitions import as_text, folder_of

HERE = Location(__file__, 1)
_SIMPLE: dict[str, Any] = {
    "byte": pa.int8(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_SQL = {"bigint": "long", "int": "integer"}


class _Settable(dict[str, str]):
    def set(self, name: str, value: str) -> None:
        self[name] = value


class _Session:
    conf = _Settable()


class ArrowFrame:
    """`ArrowFrame({"id": "long", "name": "string"}, [(1, "a")])`; a type is Spark's, as its schema's JSON says it."""

    sparkSession = _Session()  # noqa: N815

    def __init__(
        self, types: Mapping[str, Any], rows: Iterable[Sequence[Any]], *, by: tuple[str, ...] = ()
    ) -> None:
        self._types = dict(types)
        self._rows = [tuple(row) for row in rows]
        self._by = by

    @property
    def write(self) -> ArrowFrame:
        return self

    @property
    def schema(self) -> ArrowFrame:
        return self

    def json(self) -> str:
        fields = [
            {"name": name, "type": kind, "nullable": False, "metadata": {}}
            for name, kind in self._types.items()
        ]
        return json.dumps({"type": "struct", "fields": fields})

    def option(self, _name: str, _value: str) -> ArrowFrame:
        return self

    def format(self, _name: str) -> ArrowFrame:
        return self

    def mode(self, _name: str) -> ArrowFrame:
        return self

    def save(self) -> None:
        """What Spark's `noop` does with rows: nothing."""

    def partitionBy(self, *names: str) -> ArrowFrame:  # noqa: N802
        return ArrowFrame(self._types, self._rows, by=names)

    def selectExpr(self, *expressions: str) -> ArrowFrame:  # noqa: N802
        types, rows = dict(self._types), self._rows
        for expression in expressions:
            if place := re.fullmatch(r"monotonically_increasing_id\(\) as `(\w+)`", expression):
                types[place[1]] = "long"
                rows = [(*row, number) for number, row in enumerate(rows)]
            if cast := re.fullmatch(r"cast\(`(\w+)` as (\w+)\) as `\w+`", expression):
                types[cast[1]] = _SQL.get(cast[2], cast[2])
        return ArrowFrame(types, rows, by=self._by)

    def parquet(self, path: str) -> None:
        grouped: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
        for row in self._rows:
            values = dict(zip(self._types, row, strict=True))
            folders = tuple(folder_of(name, as_text(values.pop(name))) for name in self._by)
            grouped[folders].append(values)
        schema = pa.schema(
            [(name, _arrow(kind)) for name, kind in self._types.items() if name not in self._by]
        )
        Path(path.removeprefix("file:")).mkdir(parents=True)
        for folders, rows in grouped.items():
            folder = Path(path.removeprefix("file:"), *folders)
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(rows, schema), folder / "part-0.parquet")


def declared(name: str, *partition_by: str, **rules: Any) -> Table:
    """A table as an app declares it."""
    return Table(name=name, partition_by=partition_by, defined_at=HERE, **rules)


def _arrow(kind: Any) -> Any:
    if isinstance(kind, str):
        digits = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
        return pa.decimal128(int(digits[1]), int(digits[2])) if digits else _SIMPLE[kind]
    if kind["type"] == "array":
        return pa.list_(_arrow(kind["elementType"]))
    if kind["type"] == "map":
        return pa.map_(_arrow(kind["keyType"]), _arrow(kind["valueType"]))
    return pa.struct([(field["name"], _arrow(field["type"])) for field in kind["fields"]])
