"""Downloads jars with the Ivy inside PySpark, so that neither Maven nor a repository address is needed."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from gearshift.errors import ArtifactError
from gearshift.stack.artifacts.java import require_java

_MAX_PROCESSES = 8
_SMALL = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_MAVEN = "http://ant.apache.org/ivy/maven"  # an XML namespace, never requested


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """One dependency in an Ivy file."""

    organisation: str
    module: str
    revision: str
    classifier: str | None = None
    ext: str = "jar"
    transitive: bool = False

    @property
    def head(self) -> str:
        """The start of its element in an Ivy file; the same for two files of one module."""
        reach = "default->master,runtime" if self.transitive else "default->master"
        return (
            f"<dependency org={quoteattr(self.organisation)} name={quoteattr(self.module)} "
            f'rev={quoteattr(self.revision)} transitive="{str(self.transitive).lower()}" conf={quoteattr(reach)}'
        )

    @property
    def artifact(self) -> str:
        """The element for the file itself."""
        classifier = f" m:classifier={quoteattr(self.classifier)}" if self.classifier else ""
        ext = quoteattr(self.ext)
        return f"<artifact name={quoteattr(self.module)} type={ext} ext={ext}{classifier}/>"


def jar() -> Path:
    """Ivy's jar, found without importing PySpark, which would take a second."""
    spec = find_spec("pyspark")
    folders = (spec.submodule_search_locations if spec else None) or []
    for folder in folders:
        for found in sorted((Path(folder) / "jars").glob("ivy-*.jar")):
            return found
    raise ArtifactError("PySpark's Ivy is missing", hint="reinstall pyspark")


def retrieve(
    dependencies: Iterable[Dependency], *, work: Path, pattern: str, size: int | None = None
) -> None:
    """Download files into `work/out`, named by Ivy's pattern; a progress bar shows how many of `size` bytes arrived."""
    java = require_java()
    work.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(work / "out", ignore_errors=True)
    shares = _shares(list(dependencies))
    with _shown(work, size), ThreadPoolExecutor(len(shares)) as pool:
        running = {
            work / str(number): pool.submit(_run, java, share, work / str(number), work / "out" / pattern)
            for number, share in enumerate(shares)
        }
    for folder, done in running.items():
        if done.result() != 0:
            raise _explained(folder / "ivy.log")


def _shares(dependencies: list[Dependency]) -> list[list[Dependency]]:
    """Split the downloads over several Ivy processes, since one downloads sequentially and mostly waits.

    Transitive dependencies stay together, since their revisions depend on each other, and so do the files of one
    module, of which Ivy reads only the first element.
    """
    if any(dependency.transitive for dependency in dependencies):
        return [dependencies]
    modules = sorted({dependency.head for dependency in dependencies})
    count = min(_MAX_PROCESSES, len(modules))
    number = {head: position % count for position, head in enumerate(modules)}
    return [[each for each in dependencies if number[each.head] == share] for share in range(count)]


def _run(java: Path, dependencies: list[Dependency], work: Path, into: Path) -> int:
    """Run one Ivy process, which keeps its downloads in `work` even if it fails; its exit code."""
    work.mkdir(exist_ok=True)
    body = _elements(dependencies)
    if not any(dependency.transitive for dependency in dependencies):
        # Two groups may need different revisions of the same module: keep both.
        body += '<conflict org="*" module="*" matcher="glob" manager="all"/>'
    (work / "ivy.xml").write_text(
        f'<ivy-module version="2.0" xmlns:m="{_MAVEN}"><info organisation="gearshift" module="stack"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{body}</dependencies></ivy-module>',
        encoding="utf-8",
    )
    command = [java, *_SMALL, "-jar", jar(), "-ivy", work / "ivy.xml", "-cache", work / "cache", "-warn"]
    with (work / "ivy.log").open("wb") as output:
        return subprocess.run(
            [*command, "-retrieve", into], stdout=output, stderr=output, check=False
        ).returncode


def _elements(dependencies: Iterable[Dependency]) -> str:
    """One element per module: of two elements Ivy reads only the first."""
    modules: dict[str, list[Dependency]] = {}
    for dependency in dependencies:
        modules.setdefault(dependency.head, []).append(dependency)
    elements: list[str] = []
    for head, files in modules.items():
        if any(file.classifier or file.ext != "jar" for file in files):
            elements.append(f"{head}>{''.join(file.artifact for file in files)}</dependency>")
        else:
            elements.append(f"{head}/>")
    return "".join(elements)


def _explained(log: Path) -> ArtifactError:
    # Ivy prints its progress as dots.
    lines = [
        line.strip(" .\t") for line in log.read_text(errors="replace").splitlines() if line.strip(" .\t")
    ]
    unreached = any(
        "Server access error" in line or "UnknownHost" in line or "onnection refused" in line
        for line in lines
    )
    not_found = sorted({line.split(": ")[1] for line in lines if "not found" in line and ": " in line})
    if unreached:
        return ArtifactError(
            "jars are missing and no Maven repository is reachable",
            hint=f"connect to the network and run again (finished downloads are kept); see Ivy's log in {log}",
        )
    return ArtifactError(
        f"Ivy did not find {', '.join(not_found) or 'some jars'}", hint=f"see Ivy's log in {log}"
    )


@contextmanager
def _shown(work: Path, size: int | None) -> Generator[None]:
    if not sys.stderr.isatty():
        print(
            "downloading jars (only once)"
            if size is None
            else f"downloading {size / 1e6:.0f} MB of jars (only once)",
            file=sys.stderr,
        )
        yield
        return
    from threading import Event, Thread

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("downloading jars (only once)"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("jars", total=size)
        done = Event()

        def watch() -> None:
            while not done.wait(0.2):
                bar.update(task, completed=min(size or math.inf, _bytes_in(work)))

        thread = Thread(target=watch, name="jars", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def _bytes_in(work: Path) -> int:
    total = 0
    for path in work.glob("*/cache/**/*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue  # Ivy renames a partial download when it is complete
    return total
