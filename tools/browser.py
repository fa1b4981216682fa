"""Finds a Chromium for the browser tests, or installs Debian's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_PACKAGES = ("chromium", "fonts-dejavu-core")


def find() -> str | None:
    """The path of an installed Chromium."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


def install() -> None:
    """Install Debian's packages."""
    if shutil.which("apt-get") is None:
        sys.exit("the browser tests need Chromium: install it, so that `chromium` is on the PATH")
    as_root = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "--yes", "--no-install-recommends", *_PACKAGES]):
        done = subprocess.run(
            [*as_root, "apt-get", "--quiet=2", *words],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"the browser tests need Chromium; apt-get {words[0]} failed:\n{done.stderr.strip()}")


if __name__ == "__main__":
    if find() is None:
        print("installing Chromium for the browser tests", flush=True)
        install()
    if find() is None:
        sys.exit("Chromium is installed, but none of " + ", ".join(_NAMES) + " is on the PATH")
