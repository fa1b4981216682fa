"""How this process reaches object stores: set from the `[storage]` settings once, read by every client of a store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

S3_SCHEMES = ("s3", "s3a")
REMOTE_SCHEMES = (*S3_SCHEMES, "hdfs")
PATIENCE_SECONDS = 90
"""How long an operation on a store that answered before waits for it to answer again."""
_DEFAULT_REGION = "us-east-1"
_S3A = "spark.hadoop.fs.s3a."


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Endpoint and keys of an object store; without keys each client looks for them where AWS's own tools do."""

    endpoint: str | None = None
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str | None = None
    path_style: bool | None = None

    @property
    def by_path(self) -> bool:
        """Whether the bucket is a part of the path, as servers other than Amazon's want it, and not of the host."""
        return self.endpoint is not None if self.path_style is None else self.path_style

    @property
    def plain_http(self) -> bool:
        """Whether the endpoint has no TLS."""
        return (self.endpoint or "").startswith("http://")


_accesses: dict[str, Access] = {}


def register(uris: Iterable[str], access: Access) -> None:
    """Use this access for the buckets of these URIs from now on."""
    for uri in uris:
        if is_s3(uri):
            _accesses[bucket_of(uri)] = access


def access_to(uri: str) -> Access:
    """The access to the bucket of a URI."""
    return _accesses.get(bucket_of(uri), Access())


def is_s3(uri: str) -> bool:
    """Whether a URI is in an object store.

    >>> is_s3("s3a://bucket/tables"), is_s3("hdfs://host:9000/tables")
    (True, False)
    """
    return uri.partition("://")[0] in S3_SCHEMES and "://" in uri


def is_hdfs(uri: str) -> bool:
    """Whether a URI is on HDFS."""
    return uri.startswith("hdfs://")


def is_remote(uri: str) -> bool:
    """Whether a URI is in an object store or on HDFS."""
    return is_s3(uri) or is_hdfs(uri)


def bucket_of(uri: str) -> str:
    """The bucket of a URI.

    >>> bucket_of("s3a://gear/tables/bills")
    'gear'
    """
    return urlsplit(uri).netloc


def delta_options(uri: str) -> dict[str, str] | None:
    """The options with which delta-rs reaches a URI."""
    if not is_s3(uri):
        return None
    access = access_to(uri)
    named = {
        "aws_endpoint": access.endpoint,
        "aws_access_key_id": access.access_key,
        "aws_secret_access_key": access.secret_key,
        "aws_session_token": access.session_token,
        "aws_region": access.region or _DEFAULT_REGION,
        "aws_allow_http": "true" if access.plain_http else None,
        "aws_virtual_hosted_style_request": "false" if access.by_path else "true",
        # The first writer of a version wins, without a table of locks next to the store.
        "aws_conditional_put": "etag",
        "max_retries": str(PATIENCE_SECONDS),
        "retry_timeout": f"{PATIENCE_SECONDS}s",
        "backoff_config.max_backoff": "2s",
    }
    return {name: value for name, value in named.items() if value is not None}


def spark_options(uris: Iterable[str]) -> dict[str, str]:
    """The configuration with which Spark reaches these URIs; empty if none of them is in an object store."""
    uri = next((uri for uri in uris if is_s3(uri)), None)
    if uri is None:
        return {}
    access = access_to(uri)
    named = {
        "endpoint": access.endpoint,
        "endpoint.region": access.region or _DEFAULT_REGION,
        "path.style.access": str(access.by_path).lower(),
        "connection.ssl.enabled": str(not access.plain_http).lower(),
        "access.key": access.access_key,
        "secret.key": access.secret_key,
        "session.token": access.session_token,
        "aws.credentials.provider": _provider(access),
        # The default reads ahead for large tables; a checkpoint is many small files.
        "input.stream.type": "classic",
        # Its client takes a late "100 Continue" for the answer, and a state store's upload fails.
        "optimized.copy.from.local.enabled": "false",
    }
    found = {f"{_S3A}{name}": value for name, value in named.items() if value is not None}
    # The same file system also answers to s3://.
    found["spark.hadoop.fs.s3.impl"] = "org.apache.hadoop.fs.s3a.S3AFileSystem"
    found["spark.hadoop.fs.AbstractFileSystem.s3.impl"] = "org.apache.hadoop.fs.s3a.S3A"
    return found


def _provider(access: Access) -> str | None:
    """S3A's provider of keys; without keys of ours its own chain: environment variables, then the machine's role."""
    if access.access_key is None:
        return None
    kind = "TemporaryAWSCredentialsProvider" if access.session_token else "SimpleAWSCredentialsProvider"
    return f"org.apache.hadoop.fs.s3a.{kind}"
