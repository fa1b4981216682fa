"""The files under a URI, through delta-rs's own object store; the one place that touches pyarrow, which has no types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as _pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.dataset as _dataset  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.fs as _fs  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet as _parquet  # pyright: ignore[reportMissingTypeStubs]
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler

from gearshift.tables.location import StorageOptions, as_uri

_arrow, _datasets = cast("Any", _pyarrow), cast("Any", _dataset)
_files, _footers = cast("Any", _fs), cast("Any", _parquet)
_FOOTER_READERS = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """A file under a URI: its path relative to it, its size and when it was written."""

    path: str
    size: int
    modified_ms: int


class Store:
    """The folder at a URI, local or in an object store."""

    def __init__(self, uri: str, storage_options: StorageOptions = None) -> None:
        handler = DeltaStorageHandler(as_uri(uri), dict(storage_options) if storage_options else None)
        self._files: Any = _files.PyFileSystem(handler)

    def files(self, folder: str) -> list[Entry]:
        """All files under a folder, at any depth."""
        return [
            Entry(info.path, info.size, int(info.mtime.timestamp() * 1000))
            for info in self._select(folder, recursive=True)
            if info.type == _files.FileType.File
        ]

    def folders(self) -> list[str]:
        """The names of the folders directly under the URI, sorted."""
        found = self._select("", recursive=False)
        return sorted(info.path for info in found if info.type == _files.FileType.Directory)

    def row_counts(self, paths: Sequence[str]) -> list[int]:
        """How many rows these Parquet files hold, by their footers."""
        if len(paths) == 1:
            return [self._row_count(paths[0])]
        with ThreadPoolExecutor(_FOOTER_READERS) as readers:
            return list(readers.map(self._row_count, paths))

    def dataset(self, schema: Schema, files: Iterable[tuple[str, Mapping[str, Any]]]) -> Any:
        """A pyarrow dataset of these files with their partition values, read when asked.

        delta-rs can make one too, but hides rows if some files have statistics of a column and others do not.
        """
        arrow_schema = _arrow.schema(schema.to_arrow())
        parquet = _datasets.ParquetFileFormat()
        fragments = [
            parquet.make_fragment(
                path, filesystem=self._files, partition_expression=_guarantee(arrow_schema, values)
            )
            for path, values in files
        ]
        return _datasets.FileSystemDataset(fragments, arrow_schema, parquet, self._files)

    def remove(self, folder: str) -> None:
        """Delete a folder with all that is in it; if that fails, a vacuum does it later."""
        try:
            self._files.delete_dir(folder)
        except (OSError, DeltaError):
            return

    def _row_count(self, path: str) -> int:
        return _footers.read_metadata(path, filesystem=self._files).num_rows

    def _select(self, folder: str, *, recursive: bool) -> list[Any]:
        selector = _files.FileSelector(folder, recursive=recursive, allow_not_found=True)
        return self._files.get_file_info(selector)


def add_actions(table: DeltaTable) -> list[dict[str, Any]]:
    """The files of an open table with their partition values and row counts."""
    return _arrow.table(table.get_add_actions()).to_pylist()


def _guarantee(schema: Any, values: Mapping[str, Any]) -> Any:
    """What the partition says about every row of its files; pyarrow fills the partition columns from it."""
    expression: Any = None
    for name, value in values.items():
        field = _datasets.field(name)
        equal = field.is_null() if value is None else field == _arrow.scalar(value, schema.field(name).type)
        expression = equal if expression is None else expression & equal
    return expression
