"""Locations of checkpoints and tables: URIs in the form that delta-rs, Spark and Python each expect."""

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


def as_uri(location: str) -> str:
    """A URI without a trailing slash; a plain path becomes a `file:` URI.

    >>> as_uri("/data/my tables/")
    'file:///data/my%20tables'
    >>> as_uri("s3://bucket/tables/")
    's3://bucket/tables'

    In a URI, a character that URIs do not have is encoded, and what is encoded already stays:

    >>> as_uri("hdfs://host:9000/50% of my%20tables #1")
    'hdfs://host:9000/50%25%20of%20my%20tables%20%231'
    """
    if location.startswith("file:"):
        return location.rstrip("/")
    scheme, separator, rest = location.partition("://")
    if not separator:
        return Path(location).absolute().as_uri()
    authority, _, path = rest.rstrip("/").partition("/")
    encoded = quote(re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", path), safe="/%:=@!$&'()*+,;~")
    return f"{scheme}://{authority}/{encoded}".rstrip("/")


def name_of(uri: str) -> str:
    """The last part of a URI: the table's name.

    >>> name_of("file:///data/warehouse/bills%20of%20May/")
    'bills of May'
    """
    return unquote(as_uri(uri).rsplit("/", 1)[-1])


def spark_path(uri: str) -> str:
    """The same location for Spark, whose paths are not percent-encoded.

    >>> spark_path("file:///data/my%20tables/bills")
    'file:/data/my tables/bills'
    >>> spark_path("s3://bucket/my%20tables/bills")
    's3a://bucket/my tables/bills'
    """
    uri = as_uri(uri)
    if uri.startswith("file:"):
        return f"file:{unquote(urlsplit(uri).path)}"
    parts = urlsplit(uri)
    scheme = "s3a" if parts.scheme == "s3" else parts.scheme  # Hadoop has only the one
    return f"{scheme}://{parts.netloc}{unquote(parts.path)}"


def remote_parts(uri: str) -> tuple[str, str, str]:
    """Scheme, authority and decoded path of a remote URI.

    >>> remote_parts("s3a://bucket/my%20tables/")
    ('s3a', 'bucket', 'my tables')
    """
    parts = urlsplit(as_uri(uri))
    return parts.scheme, parts.netloc, unquote(parts.path).strip("/")


def local_path(uri: str) -> Path | None:
    """The same location as a local path; None if it is on another file system.

    >>> local_path("file:///data/my%20tables").as_posix(), local_path("s3://bucket/tables")
    ('/data/my tables', None)
    """
    uri = as_uri(uri)
    return Path(unquote(urlsplit(uri).path)) if uri.startswith("file:") else None


def nearest(path: Path) -> Path:
    """The path, or its nearest parent that exists and that this user may see.

    >>> nearest(Path("/nowhere/warehouse")).as_posix()
    '/'
    """
    # Unlike Path.exists, this does not raise where a parent folder cannot be searched.
    while not os.path.exists(path) and path != path.parent:  # noqa: PTH110
        path = path.parent
    return path


def require_for_delta(uri: str) -> None:
    """Raise for a folder that delta-rs cannot open: it decodes `%20` in a name twice, and panics at brackets."""
    if uri.startswith("hdfs://"):
        _require_plain(uri)
    path = local_path(uri)
    found = re.search(r"%[0-9A-Fa-f]{2}|[\[\]\\^|\n]", str(path)) if path is not None else None
    if found is not None:
        raise TableError(
            f"cannot keep tables in {path}: Delta cannot open a folder with {found[0]!r} in its path",
            hint="rename the folder, or choose another with the warehouse setting",
        )


def _require_plain(uri: str) -> None:
    """On HDFS, delta-rs writes to the encoded path and reads from the decoded one."""
    path = f"/{remote_parts(uri)[2]}"
    odd = re.search(r"[^\w./=-]|[^\x00-\x7f]", path)
    if odd is not None:
        raise TableError(
            f"cannot keep tables in {uri}: on HDFS, Delta cannot open a folder with {odd[0]!r} in its path",
            hint="use letters, digits and any of . _ - = in the warehouse setting; checkpoints may have any name",
        )
