"""Finds Java, the only prerequisite that Gearshift does not install."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache as remember
from pathlib import Path

from gearshift.errors import JavaError

OLDEST = 17
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "_JAVA_OPTIONS")
_KEPT_KINDS = ("LC_", "JAVA_", "JDK_")
_INSTALL = (
    f"install a JDK {OLDEST} or newer, e.g. apt-get install openjdk-{OLDEST}-jre-headless, or set JAVA_HOME"
)


def require_java() -> Path:
    """The java program from JAVA_HOME or PATH; JavaError if there is none or it is too old."""
    java = _found()
    version = java_version(java)
    if version < OLDEST:
        raise JavaError(f"{java} is Java {version}, but Java {OLDEST} or newer is required", hint=_INSTALL)
    return java


@remember
def java_version(java: Path) -> int:
    """The feature release of a Java: 17, 21 …; cached, since running it takes 50 ms."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(f"{java} does not run: {error}", hint=_INSTALL) from None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if found is None:
        raise JavaError(f"{java} does not print its version", hint=_INSTALL)
    return int(found[1])


def environment(jars: Iterable[Path] = ()) -> dict[str, str]:
    """The environment of a service, without the secrets of the user's environment.

    The class path is passed here too, since a hundred jars would bury the rest of a command line.
    """
    kept = {
        name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_KINDS)
    }
    return kept | utf8_locale(kept) | {"CLASSPATH": os.pathsep.join(str(jar) for jar in jars)}


def _found() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise JavaError(f"JAVA_HOME is {home}, which contains no bin/java", hint=_INSTALL)
        return java
    on_path = shutil.which("java")
    if on_path is None:
        raise JavaError("no Java found", hint=_INSTALL)
    return Path(on_path)


def utf8_locale(environ: Mapping[str, str]) -> dict[str, str]:
    """What to add to the environment so that Java can open files of any name.

    Java encodes file names in the locale's encoding: under `LC_ALL=C`, as set by cron, `ü` becomes `?`.

    >>> utf8_locale({"LANG": "de_DE.UTF-8"}), utf8_locale({"LC_ALL": "C", "LANG": "de_DE.UTF-8"})
    ({}, {'LC_ALL': 'C.UTF-8'})
    """
    chosen = next((environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), "C")
    return {} if re.search(r"utf-?8", chosen, re.IGNORECASE) else {"LC_ALL": "C.UTF-8"}


def properties_text(properties: Mapping[str, object]) -> str:
    r"""A Java properties file, which is read as Latin-1 with backslash escapes.

    >>> properties_text({"log.dirs": "/mein Projekt ü"})
    'log.dirs=/mein Projekt \\u00fc\n'
    """
    lines = (f"{name}={value}".replace("\\", "\\\\") for name, value in properties.items())
    return "".join(f"{_escaped(line)}\n" for line in lines)


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(code) if code < 128 else f"\\u{code:04x}" for code in codes)
