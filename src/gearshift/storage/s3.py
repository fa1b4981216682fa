"""Small files in an S3 bucket, each put whole; a file that must be new is put on condition that there is none."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from gearshift.errors import StorageError
from gearshift.storage.access import PATIENCE_SECONDS, Access, access_to, bucket_of
from gearshift.storage.failures import storage_failure
from gearshift.storage.location import as_uri, remote_parts

if TYPE_CHECKING:
    from obstore.store import S3Store

_FIRST_ANSWER_WITHIN = timedelta(seconds=5)
_ALREADY = ("AlreadyExists", "PreconditionFailed", "PreconditionError")


class S3Folder:
    """A folder in a bucket."""

    def __init__(self, uri: str) -> None:
        self._uri = as_uri(uri)
        self._path = remote_parts(self._uri)[2]
        self._objects, self._store = _objects(), _store(bucket_of(self._uri), access_to(self._uri))
        require_bucket(self._uri)

    def names(self, folder: str) -> list[str]:
        """The names of the entries in a subfolder; empty if it does not exist."""
        prefix = self._key(folder)
        with self._asking():
            found = self._objects.list_with_delimiter(self._store, f"{prefix}/" if prefix else None)
        paths = [*found["common_prefixes"], *(entry["path"] for entry in found["objects"])]
        return [path.rstrip("/").rsplit("/", 1)[-1] for path in paths]

    def read(self, name: str) -> str | None:
        """The text of a file; None if it does not exist."""
        with self._asking():
            try:
                return bytes(self._objects.get(self._store, self._key(name)).bytes()).decode("utf-8")
            except FileNotFoundError as error:
                if storage_failure(self._uri, error) is not None:
                    raise  # the bucket is missing, not the file
                return None

    def write(self, name: str, text: str) -> None:
        """Write a file; readers see the old text or the new one."""
        with self._asking():
            self._objects.put(self._store, self._key(name), text.encode(), use_multipart=False)

    def create(self, name: str, text: str) -> bool:
        """Write a file unless there is one; whether it was written."""
        with self._asking():
            try:
                self._objects.put(
                    self._store, self._key(name), text.encode(), mode="create", use_multipart=False
                )
            except Exception as error:
                if any(word in f"{type(error).__name__} {error}" for word in _ALREADY):
                    # A put that was answered too late is sent again, and then finds its own file.
                    return self.read(name) == text
                raise
        return True

    def remove(self, name: str) -> None:
        """Delete a file, if it exists."""
        with self._asking():
            self._objects.delete(self._store, self._key(name))

    def move(self, to: str) -> None:
        """Move every file to another folder of the bucket; one that is interrupted can be repeated."""
        target_folder = S3Folder(to)
        with self._asking():
            for batch in self._objects.list(self._store, f"{self._path}/"):
                paths: list[str] = [entry["path"] for entry in batch]
                for path in paths:
                    target = target_folder._key(path.removeprefix(f"{self._path}/"))
                    self._objects.copy(self._store, path, target)
                self._objects.delete(self._store, paths)

    def place(self, name: str) -> str:
        """The URI of a file, for messages."""
        return f"{self._uri}/{name}"

    def _key(self, name: str) -> str:
        return "/".join(part for part in (self._path, name) if part)

    @contextmanager
    def _asking(self) -> Generator[None]:
        try:
            yield
        except Exception as error:
            failure = storage_failure(self._uri, error)
            if failure is None or isinstance(error, StorageError):
                raise
            raise failure from None


def require_bucket(uri: str) -> None:
    """Raise StorageError unless the bucket of a URI can be listed; asked once per process."""
    _require_bucket(bucket_of(uri), access_to(uri), as_uri(uri))


_answered: set[tuple[str, Access]] = set()


def _require_bucket(bucket: str, access: Access, uri: str) -> None:
    if (bucket, access) in _answered:
        return
    # With little patience: at the start a wrong address is likelier than a store that comes back.
    store = _store(bucket, access, patience=_FIRST_ANSWER_WITHIN)
    try:
        _objects().list_with_delimiter(store, "gearshift-asks-whether-the-bucket-exists/")
    except Exception as error:
        failure = storage_failure(uri, error)
        if failure is None:
            failure = StorageError(f"{uri}: the store cannot be used: {str(error).splitlines()[0]}")
        raise failure from None
    _answered.add((bucket, access))


@cache
def _store(
    bucket: str, access: Access, *, patience: timedelta = timedelta(seconds=PATIENCE_SECONDS)
) -> S3Store:
    from obstore.store import S3Store

    given = {
        "endpoint": access.endpoint,
        "access_key_id": access.access_key,
        "secret_access_key": access.secret_key,
        "session_token": access.session_token,
        "region": access.region or "us-east-1",
    }
    configuration: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return S3Store(
        bucket,
        virtual_hosted_style_request=not access.by_path,
        client_options={"allow_http": access.plain_http},
        retry_config={
            "max_retries": 1000,
            "retry_timeout": patience,
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=2),
                "base": 2,
            },
        },
        **configuration,
    )


def _objects() -> Any:
    try:
        import obstore
    except ImportError:
        raise StorageError(
            "checkpoints and tables in an object store need the package obstore",
            hint='install it with: pip install "gearshift[s3]"',
        ) from None
    return obstore
