"""The files under a URI, on a local disk or in an object store; the only module that uses pyarrow, which is untyped."""

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

from gearshift.storage.location import StorageOptions, as_uri, local_path
from gearshift.storage.reaching import options_for

_arrow, _datasets = cast("Any", _pyarrow), cast("Any", _dataset)
_files, _footers = cast("Any", _fs), cast("Any", _parquet)
_FOOTER_READERS = 8
_GROUP_BYTES = 64 << 20  # in Arrow's format; Parquet takes a fraction of it
_GROUPS_PER_FILE = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """A file under a URI: its relative path, its size and its modification time."""

    path: str
    size: int
    modified_ms: int


class Store:
    """The folder at a URI, on a local disk or in an object store."""

    def __init__(self, uri: str, storage_options: StorageOptions = None) -> None:
        self._local = local_path(uri)
        if self._local is not None:
            # pyarrow's own file system: a scan that ends early waits for its readers, and the readers of a file
            # system written in Python can deadlock with it.
            self._files: Any = _files.SubTreeFileSystem(str(self._local), _files.LocalFileSystem())
        else:
            handler = DeltaStorageHandler(as_uri(uri), options_for(uri, storage_options))
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

    def read_text(self, path: str) -> str | None:
        """The text of a file; None if it does not exist."""
        try:
            with self._files.open_input_stream(path) as stream:
                return bytes(stream.read()).decode()
        except (FileNotFoundError, DeltaError):
            return None

    def row_counts(self, paths: Sequence[str]) -> list[int]:
        """The row count of each Parquet file, from its footer."""
        if len(paths) < 2:
            return [self._row_count(path) for path in paths]
        with ThreadPoolExecutor(_FOOTER_READERS) as readers:
            return list(readers.map(self._row_count, paths))

    def first_value(self, path: str, column: str) -> Any:
        """The value of a column in a Parquet file's first row."""
        with _footers.ParquetFile(path, filesystem=self._files) as file:
            return next(file.iter_batches(1, columns=[column])).column(0)[0].as_py()

    def find_unreadable(self, path: str) -> str | None:
        """A description of the first value that is not valid text or a valid time; None if all are valid."""
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
        """Write Arrow batches to Parquet files `PATH-0.parquet`, `PATH-1.parquet`, …, leaving out some columns.

        A new file starts at about a hundred megabytes. Without batches no file is written.
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
        """A lazy pyarrow dataset of these files with their partition values.

        `numbered` adds a column of that name with the index of each row's file.
        delta-rs's own dataset hides rows if only some of the files have statistics of a column.
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
        """Delete a folder and its contents; if that fails, a later vacuum deletes them."""
        try:
            self._files.delete_dir(folder)
        except (OSError, DeltaError):
            return

    def remove_file(self, path: str) -> None:
        """Delete a file; if that fails, a later vacuum deletes it."""
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
    """The partition expression of a file, from which pyarrow fills the partition columns."""
    expression: Any = None
    for name, value in values.items():
        field = _datasets.field(name)
        equal = field.is_null() if value is None else field == _arrow.scalar(value, schema.field(name).type)
        expression = equal if expression is None else expression & equal
    return expression


def _row_groups(batches: Iterable[Any]) -> Iterator[Any]:
    """Combine batches into large row groups: each one costs readers time."""
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
