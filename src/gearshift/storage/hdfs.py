"""Small files on HDFS: written next to their target and renamed, which HDFS does in one step."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from gearshift.errors import StorageError, StorageUnreachableError
from gearshift.storage.access import PATIENCE_SECONDS
from gearshift.storage.failures import storage_failure
from gearshift.storage.location import as_uri, remote_parts

T = TypeVar("T")

_FIRST_ANSWER_WITHIN = 5.0
_RETRY_SECONDS = 1.0


class HdfsFolder:
    """A folder on HDFS."""

    def __init__(self, uri: str) -> None:
        self._uri = as_uri(uri)
        _, authority, path = remote_parts(self._uri)
        self._path = f"/{path}"
        self._client = _client(authority)
        require_cluster(self._uri)

    def names(self, folder: str) -> list[str]:
        """The names of the entries in a subfolder; empty if it does not exist."""

        def listed() -> list[str]:
            try:
                found: list[Any] = list(self._client.list_status(self._place(folder)))
            except FileNotFoundError:
                return []
            names = (str(entry.path).rsplit("/", 1)[-1] for entry in found)
            return [name for name in names if not name.startswith(_UNFINISHED)]

        return self._asked(listed)

    def read(self, name: str) -> str | None:
        """The text of a file; None if it does not exist."""

        def text() -> str | None:
            try:
                with self._client.read(self._place(name)) as file:
                    return bytes(file.read()).decode("utf-8")
            except FileNotFoundError:
                return None

        return self._asked(text)

    def write(self, name: str, text: str) -> None:
        """Write a file; readers see the old text or the new one."""
        self._asked(lambda: self._put(name, text, overwrite=True))

    def create(self, name: str, text: str) -> bool:
        """Write a file unless there is one; whether it was written."""

        def created() -> bool:
            try:
                self._put(name, text, overwrite=False)
            except FileExistsError:
                # A rename that was answered too late is sent again, and then finds its own file.
                return self.read(name) == text
            return True

        return self._asked(created)

    def remove(self, name: str) -> None:
        """Delete a file, if it exists."""
        self._asked(lambda: self._client.delete(self._place(name)))

    def move(self, to: str) -> None:
        """Move the folder to another place on this HDFS."""
        target = HdfsFolder(to)._path
        parent = target.rsplit("/", 1)[0]
        self._asked(lambda: self._client.mkdirs(parent or "/"))
        self._asked(lambda: self._client.rename(self._path, target))

    def place(self, name: str) -> str:
        """The URI of a file, for messages."""
        return f"{self._uri}/{name}"

    def _place(self, name: str) -> str:
        return f"{self._path}/{name}".rstrip("/") or "/"

    def _put(self, name: str, text: str, *, overwrite: bool) -> None:
        target = self._place(name)
        folder, _, last = target.rpartition("/")
        unfinished = f"{folder}/{_UNFINISHED}{last}.{uuid.uuid4().hex}"
        with self._client.create(unfinished) as file:
            file.write(text.encode("utf-8"))
        try:
            self._client.rename(unfinished, target, overwrite=overwrite)
        except Exception as error:
            self._client.delete(unfinished)
            if "FileAlreadyExists" in str(error):
                raise FileExistsError(target) from None
            raise

    def _asked(self, ask: Callable[[], T]) -> T:
        return _patiently(ask, self._uri, PATIENCE_SECONDS)


_UNFINISHED = "._gearshift_"
_answered: set[str] = set()


def require_cluster(uri: str) -> None:
    """Raise StorageError unless the NameNode of a URI answers; asked once per process."""
    _, authority, _ = remote_parts(uri)
    if authority not in _answered:
        # With little patience: at the start a wrong address is likelier than a NameNode that comes back.
        _require_listener(authority, as_uri(uri))
        client = _client(authority)
        _patiently(lambda: list(client.list_status("/")), as_uri(uri), _FIRST_ANSWER_WITHIN)
        _answered.add(authority)


def _require_listener(authority: str, uri: str) -> None:
    """Raise if nothing listens at an address; the client itself would go on trying for more than a minute."""
    host, _, port = authority.rpartition(":")
    if not host or not port.isdigit():
        return  # a name service, whose addresses are in Hadoop's own configuration
    try:
        socket.create_connection((host, int(port)), timeout=_FIRST_ANSWER_WITHIN).close()
    except OSError as error:
        failure = storage_failure(uri, f"ConnectException: {error}")
        assert failure is not None
        raise failure from None


def _patiently(ask: Callable[[], T], uri: str, patience: float) -> T:
    """The answer, asked for again while the cluster does not answer."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return ask()
        except (FileExistsError, StorageError):
            raise
        except Exception as error:
            failure = storage_failure(uri, error)
            if failure is None:
                raise StorageError(f"{uri}: HDFS failed: {str(error).splitlines()[0]}") from error
            if not isinstance(failure, StorageUnreachableError) or time.monotonic() > deadline:
                raise failure from None
        time.sleep(_RETRY_SECONDS)


@cache
def _client(authority: str) -> Any:
    # Its own log would put a line on the terminal for every attempt to reach a node that is gone.
    os.environ.setdefault("RUST_LOG", "error")
    try:
        from hdfs_native import Client
    except ImportError:
        raise StorageError(
            "checkpoints and tables on HDFS need the package hdfs-native",
            hint='install it with: pip install "gearshift[hdfs]"',
        ) from None
    return Client(f"hdfs://{authority}")
