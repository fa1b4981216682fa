"""What a remote store's client reports, in one sentence: wrong keys, a missing bucket, no answer."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager

from gearshift.errors import GearshiftError, StorageError, StorageUnreachableError
from gearshift.storage.access import access_to, bucket_of, is_remote, is_s3

_NO_SUCH_BUCKET = ("NoSuchBucket", "UnknownStoreException", "bucket does not exist")
_WRONG_KEYS = (
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidClientTokenId",
    "AuthFailure",
    "InvalidToken",
    "ExpiredToken",
)
_DENIED = ("AccessDenied", "403 Forbidden", "AccessControlException", "Permission denied")
_NO_KEYS = (
    "CredentialsNotLoaded",
    "No AWS Credentials",
    "no credentials",
    "instance metadata",
    "169.254.169.254",
)
_UNREACHABLE = (
    "Connection refused",
    "error sending request",
    "tcp connect error",
    "dns error",
    "operation timed out",
    "timed out",
    "Connection reset",
    "connection closed",
    "ConnectException",
    "early eof",
    "unexpected end of file",
    "NoRouteToHost",
    "UnknownHostException",
    "No active NameNode",
    "Broken pipe",
    "Network is unreachable",
    "503 Service Unavailable",
    "SafeModeException",
    "could only be written to 0",
    "Could not obtain block",
    "DataNodes",
)
_PLAIN = re.compile(r"\x1b\[[0-9;]*m")


def storage_failure(uri: str, error: BaseException | str) -> StorageError | None:
    """The failure of a remote store as one sentence; None if it is something else."""
    text = _PLAIN.sub("", str(error))
    at = _at(uri)
    if _has(text, _NO_SUCH_BUCKET):
        return StorageError(
            f"bucket {bucket_of(uri)} does not exist{at}",
            hint="create it, or correct the URI in the settings",
        )
    if _has(text, _WRONG_KEYS):
        return StorageError(
            f"{uri}: the store{at} rejected the access key",
            hint="correct access_key and secret_key in [storage]",
        )
    if _has(text, _NO_KEYS):
        return StorageError(
            f"{uri}: there are no keys for the store{at}",
            hint="set access_key and secret_key in [storage], or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    if _has(text, _DENIED):
        who = "these keys" if is_s3(uri) else "this user"
        return StorageError(
            f"{uri}: access denied to {who}{at}", hint=f"grant {who} read, write, list and delete there"
        )
    if _has(text, _UNREACHABLE):
        return StorageUnreachableError(
            f"{uri}: the store does not answer{at}",
            hint="check that it runs, and the address in the settings",
        )
    return None


@contextmanager
def reported(uri: str) -> Generator[None]:
    """Report the failure of a remote store inside this block as a StorageError."""
    try:
        yield
    except Exception as error:
        failure = storage_failure(uri, error) if is_remote(uri) and not _is_ours(error) else None
        if failure is None:
            raise
        raise failure from error


def _is_ours(error: Exception) -> bool:
    return isinstance(error, GearshiftError)


def _at(uri: str) -> str:
    endpoint = access_to(uri).endpoint if is_s3(uri) else None
    return f" at {endpoint}" if endpoint else ""


def _has(text: str, patterns: tuple[str, ...]) -> bool:
    return any(pattern.lower() in text.lower() for pattern in patterns)
