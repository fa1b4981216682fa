"""Class data sharing archives, from which a Java program starts in about half the CPU time.

`spark/training.py` creates them. Java checks that an archive fits, and starts without one that does not. Since an
archive contains code, like a jar, the SHA-256 next to it proves that it was created here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gearshift.errors import TamperedArtifactError
from gearshift.stack.artifacts.artifacts import file_sha256
from gearshift.stack.artifacts.java import require_java

_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")  # an archive that does not fit is not worth logging


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive, which may not exist yet."""

    path: Path

    @classmethod
    def of(cls, program: str, classes: Iterable[Path], *, cache: Path) -> Archive:
        """The archive of a program for this Java and these jars."""
        key = "".join(f"{path}\n{path.stat().st_mtime_ns}\n" for path in (require_java().resolve(), *classes))
        digest = hashlib.sha256(key.encode()).hexdigest()[:12]
        return cls(cache / "startup" / f"{program}-{digest}.jsa")

    @property
    def options(self) -> tuple[str, ...]:
        """The Java options to start from it; none if it does not exist."""
        if not self.path.exists():
            return ()
        try:
            expected = self.digest.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return ()  # created by an earlier version without a digest: it is created again
        actual = file_sha256(self.path)
        if actual != expected:
            raise TamperedArtifactError(
                f"{self.path} is not the archive that was created here: expected SHA-256 {expected}, found {actual}",
                hint="delete it and run again",
            )
        return (f"-XX:SharedArchiveFile={self.path}", *_QUIET)

    @property
    def digest(self) -> Path:
        """The file with its SHA-256."""
        return self.path.with_suffix(".sha256")

    @property
    def made(self) -> bool:
        """Whether it exists and can be verified."""
        return self.path.exists() and self.digest.exists()

    @property
    def recording(self) -> tuple[str, ...]:
        """The Java options to write it on exit."""
        return (f"-XX:ArchiveClassesAtExit={self.path}", *_QUIET)
