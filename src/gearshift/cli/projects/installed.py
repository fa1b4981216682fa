"""Where this Gearshift was installed from, so that a project can name the same source (PEP 610)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True, slots=True)
class Installed:
    """A version of Gearshift and the URL it came from; without one it came from a package index."""

    version: str
    url: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether only this machine has the source."""
        return self.url is not None and self.url.startswith("file:")

    def requirement(self, extras: tuple[str, ...] = ()) -> str:
        """A requirement that installs it from there.

        >>> Installed("0.1.0").requirement(), Installed("0.1.0", "file:///gearshift").requirement(("postgres",))
        ('gearshift>=0.1.0', 'gearshift[postgres] @ file:///gearshift')
        """
        name = f"gearshift[{','.join(extras)}]" if extras else "gearshift"
        return f"{name}>={self.version}" if self.url is None else f"{name} @ {self.url}"


def installed() -> Installed:
    """The running Gearshift; a source on this machine that is gone is not named."""
    found = distribution("gearshift")
    kept = found.read_text("direct_url.json")
    url = source_of(json.loads(kept)) if kept else None
    if url is not None and url.startswith("file:") and not Path(unquote(urlsplit(url).path)).exists():
        url = None
    return Installed(found.version, url)


def source_of(kept: dict[str, Any]) -> str:
    """The URL of a requirement for what a `direct_url.json` describes.

    >>> source_of({"url": "https://host/gearshift.git", "vcs_info": {"vcs": "git", "commit_id": "0c5b1a2"}})
    'git+https://host/gearshift.git@0c5b1a2'
    """
    url = str(kept["url"])
    if (control := kept.get("vcs_info")) is not None:
        url = f"{control['vcs']}+{url}@{control['commit_id']}"
    return url + (f"#subdirectory={kept['subdirectory']}" if kept.get("subdirectory") else "")
