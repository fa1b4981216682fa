"""Write `src/gearshift/stack/artifacts.lock`: resolve every group once, transitively where asked, and hash each file.

Run it after changing a version here, and read the difference before committing it.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import gearshift
from gearshift.stack.artifacts import file_sha256, tree_sha256, unpack
from gearshift.stack.ivy import Dependency, retrieve


def spark(organisation: str, module: str, revision: str) -> Dependency:
    """A jar that PySpark does not ship; what it depends on, PySpark has."""
    return Dependency(organisation=organisation, module=module, revision=revision)


GROUPS = {
    "kafka": [
        Dependency(organisation="org.apache.kafka", module="kafka_2.13", revision="4.3.1", transitive=True),
        # Kafka speaks slf4j 1.7 and brings log4j 2.25, but not what joins them: without it its log is lost.
        Dependency(organisation="org.apache.logging.log4j", module="log4j-slf4j-impl", revision="2.25.4"),
    ],
    "spark": [
        spark("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
        spark("org.apache.spark", "spark-avro_2.13", "4.1.1"),
        spark("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.1.0-preview1"),
        spark("org.apache.kafka", "kafka-clients", "3.9.2"),
        spark("org.apache.commons", "commons-pool2", "2.13.1"),
        spark("org.scala-lang.modules", "scala-parallel-collections_2.13", "1.2.0"),
    ],
    "registry": [
        Dependency(
            organisation="io.apicurio",
            module="apicurio-registry-app",
            revision="2.6.13.Final",
            classifier="all",
            ext="tar.gz",
        ),
    ],
}
PATTERN = "[organisation]/[module]/[revision]/[artifact](+[classifier]).[ext]"


def entry(path: Path, out: Path, group: str) -> dict[str, object]:
    """The lock's entry for a file that Ivy brought."""
    organisation, module, revision, name = path.relative_to(out).parts
    ext = "tar.gz" if name.endswith(".tar.gz") else "jar"
    classifier = name.removesuffix(f".{ext}").partition("+")[2]
    sha256 = file_sha256(path)
    if ext == "tar.gz":
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


def main() -> None:
    """Resolve, hash, write."""
    entries: dict[Path, dict[str, object]] = {}
    for group, dependencies in GROUPS.items():
        with tempfile.TemporaryDirectory() as work:
            retrieve(dependencies, work=Path(work), pattern=PATTERN)
            out = Path(work) / "out"
            for path in sorted(path for path in out.rglob("*") if path.is_file()):
                key = path.relative_to(out)
                if key in entries:
                    entries[key]["groups"] = [*entries[key]["groups"], group]  # type: ignore[misc]
                else:
                    entries[key] = entry(path, out, group)
    lock = Path(gearshift.__file__).with_name("stack") / "artifacts.lock"
    # One line a file, so that a changed version is one changed line.
    lines = ",\n".join(json.dumps(entries[key]) for key in sorted(entries))
    lock.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
