"""Archives of the classes that a Java program loads: from one, it starts with half the work.

`pipelines/training.py` makes them. Java itself checks that an archive fits, and starts without one that does not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gearshift.stack.java import require_java

_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")  # an archive that does not fit is no news for a log


@dataclass(frozen=True, slots=True)
class Archive:
    """The place of an archive, whether it is there or not."""

    path: Path

    @classmethod
    def of(cls, program: str, classes: Iterable[Path], *, cache: Path) -> Archive:
        """Where the archive of a program is, for this Java and these jars."""
        words = "".join(
            f"{path}\n{path.stat().st_mtime_ns}\n" for path in (require_java().resolve(), *classes)
        )
        digest = hashlib.sha256(words.encode()).hexdigest()[:12]
        return cls(cache / "startup" / f"{program}-{digest}.jsa")

    @property
    def options(self) -> tuple[str, ...]:
        """What Java is told to start from it; nothing, if it is not there."""
        return (f"-XX:SharedArchiveFile={self.path}", *_QUIET) if self.path.exists() else ()

    @property
    def recording(self) -> tuple[str, ...]:
        """What Java is told to write it when it ends."""
        return (f"-XX:ArchiveClassesAtExit={self.path}", *_QUIET)
