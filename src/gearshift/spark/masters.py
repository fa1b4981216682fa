"""Which machines run Spark's tasks: what they cannot reach, and whether the master answers."""

from __future__ import annotations

import logging
import os
import re
import socket
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import urlsplit

from gearshift.definitions import Graph, Topic
from gearshift.errors import ClusterError, SettingsError
from gearshift.settings import Settings
from gearshift.storage.access import is_hdfs, is_s3
from gearshift.storage.location import local_path

log = logging.getLogger(__name__)

_LOOPBACK = re.compile(r"localhost|127\.\d+\.\d+\.\d+|\[?::1\]?")
_ANSWERS_WITHIN = 5.0
_YARN_PORT = 8032
_RAISED = re.compile(r"(?:: )?[\w.$]+(?:Exception|Error): (.+)")


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's own process."""
    return master.startswith("local")


def on_one_machine(master: str) -> bool:
    """Whether all tasks run on this machine: local, or on a cluster that listens on loopback alone.

    A Kubernetes API on loopback says nothing: its pods have networks of their own.

    >>> [on_one_machine(master) for master in ("local[4]", "spark://127.0.0.1:7077", "spark://host:7077", "k8s://::1")]
    [True, True, False, False]
    """
    managers = _resource_managers(_hadoop_configuration()) if master == "yarn" else _standalone(master)
    return is_local(master) or (bool(managers) and all(_is_loopback(host) for host, _ in managers))


def resolved(master: str) -> str:
    """The master as Spark's own launcher would pass it on.

    >>> resolved("k8s://api:6443"), resolved("yarn")
    ('k8s://https://api:6443', 'yarn')
    """
    return (
        f"k8s://https://{master[6:]}" if master.startswith("k8s://") and "://" not in master[6:] else master
    )


def require_shared_storage(master: str, settings: Settings) -> None:
    """Raise if executors on other machines cannot reach the storage.

    On their local disks each batch would be committed empty.
    """
    if on_one_machine(master):
        return
    for setting, uri in (("checkpoints", settings.checkpoints_uri), ("warehouse", settings.warehouse_uri)):
        if local_path(uri) is not None:
            raise SettingsError(
                f"{setting} are at {uri}, a local disk that the executors of {master} do not share",
                hint=f"set {setting} to a URI that all of them can reach, such as hdfs://… or s3a://…",
            )
        if is_hdfs(uri) and _is_loopback(urlsplit(uri).hostname):
            raise SettingsError(
                f"{setting} are at {uri}, a loopback address that the executors of {master} cannot reach",
                hint=f"set {setting} to a URI with the NameNode's own host name",
            )
        endpoint = settings.storage.endpoint
        if is_s3(uri) and endpoint is not None and _is_loopback(urlsplit(endpoint).hostname):
            raise SettingsError(
                f"the store of {setting} is at {endpoint}, a loopback address that the executors of {master} cannot reach",
                hint="set storage.endpoint to an address that all of them can reach",
            )


def require_shared_kafka(graph: Graph, settings: Settings) -> None:
    """Raise if executors on other machines would look for Kafka on their own loopback address."""
    master = settings.spark_master or "local"
    if on_one_machine(master) or not _uses_kafka(graph):
        return
    hint = "set bootstrap_servers to addresses that all of them can reach"
    if settings.bootstrap_servers is None:
        raise SettingsError(
            f"bootstrap_servers is not set, and the executors of {master} cannot reach a local Kafka, which listens on loopback",
            hint=hint,
        )
    for address in settings.bootstrap_servers.split(","):
        if _is_loopback(address.strip().rpartition(":")[0]):
            raise SettingsError(
                f"Kafka is at {address.strip()}, a loopback address that the executors of {master} cannot reach",
                hint=hint,
            )


def require_answer(master: str) -> None:
    """Raise if nothing listens where the master should: Spark itself would try for a minute, with a page of log."""
    addresses = _addresses(master)
    if addresses and not any(_listens(*address) for address in addresses):
        named = ", ".join(f"{host}:{port}" for host, port in addresses)
        raise ClusterError(
            f"the Spark master {master} does not answer at {named}",
            hint="check that it is running, or change spark_master",
        )


def not_started(master: str, error: Exception, log_file: Path | None) -> ClusterError:
    """Spark's error at its start, in one sentence: the first Java exception with a message."""
    lines = str(error).splitlines()
    raised = [found[1] for line in lines if (found := _RAISED.match(line))]
    reason = next(iter([*raised, *lines]), type(error).__name__)
    hint = f"see {log_file}" if log_file is not None else None
    if master.startswith("spark:"):
        hint = (
            f"check that the port is the master's own, not that of its page, and the secret the same; {hint}"
        )
    return ClusterError(f"Spark did not start on {master}: {reason}", hint=hint)


def warn_of_open_cluster(master: str, settings: Settings) -> None:
    """Warn about a standalone cluster without a secret: Spark creates one only for local[N], YARN and Kubernetes."""
    if master.startswith("spark:") and settings.spark.get("spark.authenticate") != "true":
        log.warning(
            "anyone who reaches the driver's port can run code in it: set spark.authenticate and "
            "spark.authenticate.secret on the cluster at %s and in [spark]",
            master,
        )


def _uses_kafka(graph: Graph) -> bool:
    return any(pipeline.topics or isinstance(pipeline.target, Topic) for pipeline in graph.pipelines.values())


def _is_loopback(host: str | None) -> bool:
    return _LOOPBACK.fullmatch(host or "") is not None


def _addresses(master: str) -> list[tuple[str, int]]:
    """The addresses at which a cluster takes applications."""
    if master.startswith("spark://"):
        return _standalone(master)
    if master.startswith("k8s://"):
        parts = urlsplit(resolved(master).removeprefix("k8s://"))
        return [(parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443))]
    if master != "yarn":
        return []
    configuration = _hadoop_configuration()
    if configuration is None:
        raise SettingsError(
            "spark_master is yarn, but neither HADOOP_CONF_DIR nor YARN_CONF_DIR names a folder with yarn-site.xml",
            hint="set HADOOP_CONF_DIR to the folder with yarn-site.xml and core-site.xml",
        )
    return _resource_managers(configuration)


def _standalone(master: str) -> list[tuple[str, int]]:
    if not master.startswith("spark://"):
        return []
    found = re.findall(r"([^/,]+):(\d+)", master)
    return [(host, int(port)) for host, port in found]


def _hadoop_configuration() -> Path | None:
    """The `yarn-site.xml` in which Hadoop's clients find their cluster."""
    folder = os.environ.get("YARN_CONF_DIR") or os.environ.get("HADOOP_CONF_DIR")
    file = Path(folder) / "yarn-site.xml" if folder else None
    return file if file is not None and file.is_file() else None


def _resource_managers(configuration: Path | None) -> list[tuple[str, int]]:
    """Where ResourceManagers take applications; each of several has the end of its name."""
    if configuration is None:
        return []
    try:
        entries = list(ET.parse(configuration).getroot().iter("property"))
    except (OSError, ET.ParseError) as error:
        raise SettingsError(f"cannot read {configuration}: {error}", hint="fix the file") from None
    properties = {
        entry.findtext("name", "").strip(): entry.findtext("value", "").strip() for entry in entries
    }
    return _client_addresses(properties)


def _client_addresses(properties: dict[str, str]) -> list[tuple[str, int]]:
    """The addresses among YARN's properties; a host without one listens on YARN's own port.

    >>> _client_addresses({"yarn.resourcemanager.hostname.a": "h1", "yarn.resourcemanager.address.b": "h2:9"})
    [('h1', 8032), ('h2', 9)]
    """
    found: dict[str, tuple[str, int]] = {}
    for name, value in sorted(properties.items(), reverse=True):  # an address comes after its host
        which = re.fullmatch(r"yarn\.resourcemanager\.(hostname|address)(\.\w+)?", name)
        host, _, port = value.partition(":")
        if which is not None and "$" not in value and (port.isdecimal() or not port):
            found[which[2] or ""] = (host, int(port or _YARN_PORT))
    return list(found.values())


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host.strip("[]"), port), timeout=_ANSWERS_WITHIN).close()
    except OSError:
        return False
    return True
