"""The files under a URI, on the disk or through delta-rs's object store; the one place that touches pyarrow, which has no types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, cast

import pyarrow as _pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.dataset as _dataset  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.fs as _fs  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet as _parquet  # pyright: ignore[reportMissingTypeStubs]
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler

from gearshift.location import StorageOptions, as_uri, local_path

_arrow, _datasets = cast("Any", _pyarrow), cast("Any", _dataset)
_files, _footers = cast("Any", _fs), cast("Any", _parquet)
_FOOTER_READERS = 8
_GROUP_BYTES = 64 << 20  # of Arrow, which Parquet makes a fraction of
_GROUPS_PER_FILE = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """A file under a URI: its path relative to it, its size and when it was written."""

    path: str
    size: int
    modified_ms: int


class Store:
    """The folder at a URI, local or in an object store."""

    def __init__(self, uri: str, storage_options: StorageOptions = None) -> None:
        self._local = local_path(uri)
        if self._local is not None:
            # pyarrow's own: a scan that ends early waits for its readers, and those of a file system written in
            # Python may wait for it in turn, for ever.
            self._files: Any = _files.SubTreeFileSystem(str(self._local), _files.LocalFileSystem())
        else:
            handler = DeltaStorageHandler(as_uri(uri), dict(storage_options) if storage_options else None)
            self._files = _files.PyFileSystem(handler)

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
        if len(paths) < 2:
            return [self._row_count(path) for path in paths]
        with ThreadPoolExecutor(_FOOTER_READERS) as readers:
            return list(readers.map(self._row_count, paths))

    def first_value(self, path: str, column: str) -> Any:
        """The value of a column in the first row of a Parquet file."""
        with _footers.ParquetFile(path, filesystem=self._files) as file:
            return next(file.iter_batches(1, columns=[column])).column(0)[0].as_py()

    def find_unreadable(self, path: str) -> str | None:
        """The first value of a Parquet file that is no text or no time, in words; None if there is none."""
        with _footers.ParquetFile(path, filesystem=self._files) as file:
            first = 0
            for batch in file.iter_batches():
                for name, column in zip(batch.schema.names, batch.columns, strict=True):
                    for number, value in enumerate(column):
                        try:
                            value.as_py()
                        except ValueError as error:
                            return f"row {first + number} of column {name} cannot be read: {error}"
                first += batch.num_rows
        return None

    def write(
        self, path: str, schema: Schema, batches: Iterable[Any], *, without: Sequence[str]
    ) -> list[Entry]:
        """Write Arrow batches to Parquet files `PATH-0.parquet`, `PATH-1.parquet`, … without some columns.

        A file is closed at about a hundred megabytes. No batches, no file.
        """
        whole = _arrow.schema(schema.to_arrow())
        kept = _arrow.schema([field for field in whole if field.name not in without])
        entries: list[Entry] = []
        groups = _row_groups(batches)
        while (first := next(groups, None)) is not None:
            name = f"{path}-{len(entries)}.parquet"
            if self._local is not None:
                (self._local / name).parent.mkdir(parents=True, exist_ok=True)
            with _footers.ParquetWriter(name, kept, filesystem=self._files) as writer:
                for group in chain([first], islice(groups, _GROUPS_PER_FILE - 1)):
                    writer.write_table(group.select(kept.names).cast(kept))
            info = self._files.get_file_info(name)
            entries.append(Entry(name, info.size, int(info.mtime.timestamp() * 1000)))
        return entries

    def dataset(
        self, schema: Schema, files: Iterable[tuple[str, Mapping[str, Any]]], *, numbered: str | None = None
    ) -> Any:
        """A pyarrow dataset of these files with their partition values, read when asked.

        With `numbered` it has a column of that name more: the number of the file that a row is in.
        delta-rs can make a dataset too, but hides rows if some files have statistics of a column and others do not.
        """
        arrow_schema = _arrow.schema(schema.to_arrow())
        if numbered is not None:
            arrow_schema = arrow_schema.append(_arrow.field(numbered, _arrow.int32()))
            files = [(path, {**values, numbered: number}) for number, (path, values) in enumerate(files)]
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

    def remove_file(self, path: str) -> None:
        """Delete a file; if that fails, a vacuum does it later."""
        try:
            self._files.delete_file(path)
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


def _row_groups(batches: Iterable[Any]) -> Iterator[Any]:
    """Batches put together until they are worth a row group: readers pay for each."""
    gathered: list[Any] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            gathered.append(batch)
            size += batch.nbytes
        if size >= _GROUP_BYTES:
            yield _arrow.Table.from_batches(gathered)
            gathered, size = [], 0
    if gathered:
        yield _arrow.Table.from_batches(gathered)
