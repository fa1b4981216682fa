"""The jars and archives the stack needs: listed in a lock, fetched once per user, refused when tampered with."""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
from dataclasses import dataclass
from functools import cache as remember
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from gearshift.errors import ArtifactError, TamperedArtifactError
from gearshift.stack import ivy
from gearshift.stack.files import exclusive


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One file of the lock; `sha256` of an archive is that of its unpacked folder, which is what runs.

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
        """Whether it is unpacked into a folder."""
        return self.ext == "tar.gz"

    @property
    def download(self) -> str:
        """Its file's name as Ivy brings it."""
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.module}-{self.revision}{classifier}.{self.ext}"

    @property
    def file(self) -> str:
        """Its name in the cache: a jar's own, or the folder an archive is unpacked into."""
        return self.download.removesuffix(".tar.gz")


@remember
def locked() -> tuple[Artifact, ...]:
    """Every artifact of the lock."""
    text = files("gearshift.stack").joinpath("artifacts.lock").read_text(encoding="utf-8")
    entries: list[dict[str, Any]] = json.loads(text)
    return tuple(Artifact(**{name: _frozen(value) for name, value in entry.items()}) for entry in entries)


def _frozen(value: Any) -> Any:
    return tuple(cast("list[str]", value)) if isinstance(value, list) else value


def members(*groups: str) -> list[Artifact]:
    """The artifacts of these groups.

    >>> [artifact.module for artifact in members("registry")]
    ['apicurio-registry-app']
    """
    known = {group for artifact in locked() for group in artifact.groups}
    for group in groups:
        if group not in known:
            raise ArtifactError(
                f"no artifacts are named {group!r}", hint=f"there are {', '.join(sorted(known))}"
            )
    return [artifact for artifact in locked() if set(groups) & set(artifact.groups)]


def jars(group: str, *, cache: Path) -> list[Path]:
    """The jars of a group, fetched if they are missing, each checked against the lock."""
    fetch(group, cache=cache)
    verify(group, cache=cache)
    return [_place(artifact, cache) for artifact in members(group) if not artifact.archive]


def folder(group: str, *, cache: Path) -> Path:
    """The folder that the archive of a group was unpacked into, fetched if it is missing, checked against the lock."""
    fetch(group, cache=cache)
    verify(group, cache=cache)
    return next(_place(artifact, cache) for artifact in members(group) if artifact.archive)


def missing(*groups: str, cache: Path) -> list[Artifact]:
    """What of these groups is not in the cache yet."""
    return [artifact for artifact in members(*groups) if not _place(artifact, cache).exists()]


def fetch(*groups: str, cache: Path) -> None:
    """Bring what is missing of these groups, in one go; several processes may do so at once."""
    if not missing(*groups, cache=cache):
        return
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with exclusive(cache / "fetch.lock"):
            # Another process may have brought them while this one waited for the lock.
            _bring(missing(*groups, cache=cache), cache)
    except OSError as error:
        raise ArtifactError(
            f"cannot keep jars in {cache}: {error.strerror}", hint="set cache to a folder you can write"
        ) from None


def verify(*groups: str, cache: Path) -> None:
    """Refuse any file that is not the one the lock names; a second hashes a gigabyte, so this is always done."""
    for artifact in members(*groups):
        place = _place(artifact, cache)
        actual = _sha256(artifact, place)
        if actual != artifact.sha256:
            raise TamperedArtifactError(
                f"{place} is not the file the lock names: expected SHA-256 {artifact.sha256}, found {actual}",
                hint="delete it and run again",
            )


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_sha256(folder: Path) -> str:
    """The SHA-256 of a folder: of the lines `sha256  path` of all its files, in the order of their paths."""
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    lines = "".join(f"{file_sha256(folder / path)}  {path}\n" for path in paths)
    return hashlib.sha256(lines.encode()).hexdigest()


def unpack(archive: Path, into: Path) -> None:
    """Unpack a tar archive whose members may not leave the folder."""
    shutil.rmtree(into, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(into, filter="data")


def _place(artifact: Artifact, cache: Path) -> Path:
    return cache / "artifacts" / artifact.file


def _sha256(artifact: Artifact, place: Path) -> str:
    return tree_sha256(place) if artifact.archive else file_sha256(place)


def _bring(artifacts: list[Artifact], cache: Path) -> None:
    if not artifacts:
        return
    # What Ivy has finished stays here if it is interrupted, so that the next run goes on from there.
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
            raise ArtifactError(f"{artifact.download} did not arrive", hint=f"see the logs in {work}")
        if artifact.archive:
            unpacked = work / artifact.file
            unpack(path, unpacked)
            path = unpacked
        actual = _sha256(artifact, path)
        if actual != artifact.sha256:
            shutil.rmtree(work)  # or the next run would take the same wrong file from here
            raise TamperedArtifactError(
                f"{artifact.download} arrived with another content: expected SHA-256 {artifact.sha256}, found {actual}",
                hint="run again; if it stays so, the repository you fetch from is not to be trusted",
            )
        path.replace(_place(artifact, cache))
    shutil.rmtree(work)
