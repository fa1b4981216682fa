"""The resolver that ships inside PySpark: no Maven needed, and no repository's address in our files."""

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
from gearshift.stack.java import require_java

_AT_ONCE = 8
_SMALL = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_MAVEN = "http://ant.apache.org/ivy/maven"  # a namespace's name, not an address that is asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """What Ivy is asked for."""

    organisation: str
    module: str
    revision: str
    classifier: str | None = None
    ext: str = "jar"
    transitive: bool = False

    @property
    def head(self) -> str:
        """How its element in an Ivy file begins; two files of one module have the same."""
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
    raise ArtifactError("PySpark's Ivy is missing", hint="install pyspark again")


def retrieve(
    dependencies: Iterable[Dependency], *, work: Path, pattern: str, size: int | None = None
) -> None:
    """Bring files into `work/out`, named by Ivy's pattern, while a bar shows how many of `size` bytes are here."""
    java = require_java()
    work.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(work / "out", ignore_errors=True)
    shares = _shares(list(dependencies))
    with _shown(work, size), ThreadPoolExecutor(len(shares)) as pool:
        running = {
            work / str(number): pool.submit(_run, java, share, work / str(number), work / "out" / pattern)
            for number, share in enumerate(shares)
        }
    for place, done in running.items():
        if done.result() != 0:
            raise _explained(place / "ivy.log")


def _shares(dependencies: list[Dependency]) -> list[list[Dependency]]:
    """What each of several Ivys brings: one alone asks for file after file, and mostly waits.

    What has dependencies of its own stays together, for their revisions depend on each other; so do the files of a
    module, of which Ivy takes only the first element.
    """
    if any(dependency.transitive for dependency in dependencies):
        return [dependencies]
    modules = sorted({dependency.head for dependency in dependencies})
    count = min(_AT_ONCE, len(modules))
    number = {head: place % count for place, head in enumerate(modules)}
    return [[each for each in dependencies if number[each.head] == share] for share in range(count)]


def _run(java: Path, dependencies: list[Dependency], work: Path, into: Path) -> int:
    """Run one Ivy, which keeps what it has brought in `work`, whatever becomes of it; its exit code."""
    work.mkdir(exist_ok=True)
    body = _elements(dependencies)
    if not any(dependency.transitive for dependency in dependencies):
        # Two groups may want the same module in two revisions: each gets its own.
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
    """One element a module: Ivy takes the files of the first only, where there are two."""
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
    # Ivy draws its progress as dots: what is left are its words.
    words = [
        line.strip(" .\t") for line in log.read_text(errors="replace").splitlines() if line.strip(" .\t")
    ]
    unreached = any(
        "Server access error" in line or "UnknownHost" in line or "onnection refused" in line
        for line in words
    )
    lost = sorted({line.split(": ")[1] for line in words if "not found" in line and ": " in line})
    if unreached:
        return ArtifactError(
            "jars are missing and the network does not reach a Maven repository",
            hint=f"connect and run again: what has arrived is kept; Ivy's own words are in {log}",
        )
    return ArtifactError(
        f"Ivy did not find {', '.join(lost) or 'some jars'}", hint=f"its own words are in {log}"
    )


@contextmanager
def _shown(work: Path, size: int | None) -> Generator[None]:
    if not sys.stderr.isatty():
        print(
            "fetching jars, once" if size is None else f"fetching {size / 1e6:.0f} MB of jars, once",
            file=sys.stderr,
        )
        yield
        return
    from threading import Event, Thread

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("fetching jars, once"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
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
            continue  # Ivy renames a part to its final name when it is whole
    return total
