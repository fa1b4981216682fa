"""Java: the one thing a machine must bring."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache as remember
from pathlib import Path

from gearshift.errors import JavaError

OLDEST = 17
_INSTALL = (
    f"install a JDK {OLDEST} or newer, e.g. apt-get install openjdk-{OLDEST}-jre-headless, or set JAVA_HOME"
)


def require_java() -> Path:
    """The Java to run, from JAVA_HOME or the PATH; or one line that says what is wrong and how to mend it."""
    java = _found()
    version = java_version(java)
    if version < OLDEST:
        raise JavaError(f"{java} is Java {version}, and {OLDEST} is the oldest that will do", hint=_INSTALL)
    return java


@remember
def java_version(java: Path) -> int:
    """The feature release of a Java: 17, 21 …; asking takes 50 ms, so each is asked once."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(f"{java} does not run: {error}", hint=_INSTALL) from None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if found is None:
        raise JavaError(f"{java} does not tell its version", hint=_INSTALL)
    return int(found[1])


def _found() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise JavaError(f"JAVA_HOME is {home}, and there is no bin/java in it", hint=_INSTALL)
        return java
    on_path = shutil.which("java")
    if on_path is None:
        raise JavaError("no Java found", hint=_INSTALL)
    return Path(on_path)
