"""Where checkpoints and tables are: one URI, in the form that delta-rs, Spark and Python each expect."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from gearshift.errors import TableError

StorageOptions = Mapping[str, str] | None


def table_uri(warehouse_uri: str, name: str) -> str:
    """The URI of a table in a warehouse.

    >>> table_uri("file:///data/warehouse/", "bills of May")
    'file:///data/warehouse/bills%20of%20May'
    """
    return f"{as_uri(warehouse_uri)}/{quote(name)}"


def as_uri(place: str) -> str:
    """A URI without a trailing slash; a plain path becomes a `file:` URI.

    >>> as_uri("/data/my tables/")
    'file:///data/my%20tables'
    >>> as_uri("s3://bucket/tables/")
    's3://bucket/tables'
    """
    if "://" in place or place.startswith("file:"):
        return place.rstrip("/")
    return Path(place).absolute().as_uri()


def name_of(uri: str) -> str:
    """The last part of a URI: the table's name.

    >>> name_of("file:///data/warehouse/bills%20of%20May/")
    'bills of May'
    """
    return unquote(as_uri(uri).rsplit("/", 1)[-1])


def spark_path(uri: str) -> str:
    """The same place for Spark, whose paths are not percent-encoded.

    >>> spark_path("file:///data/my%20tables/bills")
    'file:/data/my tables/bills'
    >>> spark_path("s3a://bucket/tables/bills")
    's3a://bucket/tables/bills'
    """
    uri = as_uri(uri)
    return f"file:{unquote(urlsplit(uri).path)}" if uri.startswith("file:") else uri


def local_path(uri: str) -> Path | None:
    """The same place as a path, if it is on this machine.

    >>> local_path("file:///data/my%20tables").as_posix(), local_path("s3://bucket/tables")
    ('/data/my tables', None)
    """
    uri = as_uri(uri)
    return Path(unquote(urlsplit(uri).path)) if uri.startswith("file:") else None


def nearest(path: Path) -> Path:
    """The path, or the first folder above it that this user sees.

    >>> nearest(Path("/nowhere/warehouse")).as_posix()
    '/'
    """
    # Path.exists raises where a folder above it is closed; this one is then simply not seen.
    while not os.path.exists(path) and path != path.parent:  # noqa: PTH110
        path = path.parent
    return path


def require_for_delta(uri: str) -> None:
    """Refuse a folder that delta-rs cannot open: it decodes `%20` in a name again, and panics at brackets."""
    path = local_path(uri)
    found = re.search(r"%[0-9A-Fa-f]{2}|[\[\]\\^|\n]", str(path)) if path is not None else None
    if found is not None:
        raise TableError(
            f"tables cannot be kept in {path}: Delta cannot open a folder with {found[0]!r} in its path",
            hint="rename the folder, or choose another with the warehouse setting",
        )
