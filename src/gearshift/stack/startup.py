"""Archives of the classes that a Java program loads: from one, it starts with half the work.

`pipelines/training.py` makes them. Java itself checks that an archive fits, and starts without one that does not; that
it is the one that was made here is checked by the SHA-256 beside it, since an archive is code as a jar is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gearshift.errors import TamperedArtifactError
from gearshift.stack.artifacts import file_sha256
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
        if not self.path.exists():
            return ()
        try:
            expected = self.digest.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return ()  # of an earlier version, which wrote none: it is made again
        actual = file_sha256(self.path)
        if actual != expected:
            raise TamperedArtifactError(
                f"{self.path} is not the archive that was made here: expected SHA-256 {expected}, found {actual}",
                hint="delete it and run again",
            )
        return (f"-XX:SharedArchiveFile={self.path}", *_QUIET)

    @property
    def digest(self) -> Path:
        """The file with its SHA-256."""
        return self.path.with_suffix(".sha256")

    @property
    def made(self) -> bool:
        """Whether it is there, and can be checked."""
        return self.path.exists() and self.digest.exists()

    @property
    def recording(self) -> tuple[str, ...]:
        """What Java is told to write it when it ends."""
        return (f"-XX:ArchiveClassesAtExit={self.path}", *_QUIET)
