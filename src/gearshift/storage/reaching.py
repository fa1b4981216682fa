"""Opens remote locations: the first use of a store in a process shows in seconds whether it can be used."""

from __future__ import annotations

from gearshift.storage.access import delta_options, is_hdfs, is_s3
from gearshift.storage.location import StorageOptions


def require_reachable(uri: str) -> None:
    """Raise StorageError unless the store of a URI answers and accepts our keys; asked once per process."""
    if is_s3(uri):
        from gearshift.storage.s3 import require_bucket

        require_bucket(uri)
    elif is_hdfs(uri):
        from gearshift.storage.hdfs import require_cluster

        require_cluster(uri)


def require_all_reachable(*uris: str) -> None:
    """Raise StorageError for the first of these locations whose store cannot be used."""
    for uri in uris:
        require_reachable(uri)


def options_for(uri: str, given: StorageOptions) -> dict[str, str] | None:
    """The options with which delta-rs opens a URI: those given, or those of the settings."""
    if given:
        return dict(given)
    require_reachable(uri)
    return delta_options(uri)
