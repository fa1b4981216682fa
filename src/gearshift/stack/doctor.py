"""Everything a machine may lack, looked at before it is needed."""

from __future__ import annotations

import os
import platform
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gearshift.errors import JavaError, StackError, TamperedArtifactError
from gearshift.settings import Settings
from gearshift.stack import artifacts, machine, ports, postgres, stores
from gearshift.stack.java import java_version, require_java
from gearshift.stack.lifecycle import find
from gearshift.stack.stack import folder

ENOUGH_MEMORY = 3 << 30  # two services, Spark and the app itself
ENOUGH_DISK = 2 << 30
OLDEST_PYTHON = (3, 11)
_GROUPS = ("kafka", "registry", "spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at, what was found, and how to mend it."""

    name: str
    ok: bool
    found: str
    hint: str = ""


def diagnose(settings: Settings) -> list[Finding]:
    """Look at everything; nothing is started and nothing is fetched."""
    return [
        _java(),
        _python(),
        _memory(),
        _disk("home", settings.home),
        _disk("cache", settings.cache),
        *_addresses(settings),
        *_programs(settings),
        _jars(settings),
    ]


def _java() -> Finding:
    try:
        java = require_java()
    except JavaError as error:
        return Finding(name="java", ok=False, found=error.what, hint=error.hint or "")
    return Finding(name="java", ok=True, found=f"{java_version(java)} at {java}")


def _python() -> Finding:
    wanted = ".".join(str(part) for part in OLDEST_PYTHON)
    ok = sys.version_info >= OLDEST_PYTHON
    return Finding(
        name="python",
        ok=ok,
        found=platform.python_version(),
        hint="" if ok else f"install Python {wanted} or newer",
    )


def _memory() -> Finding:
    free = machine.free_memory()
    ok = free >= ENOUGH_MEMORY
    hint = "" if ok else f"end other programs: {machine.in_words(ENOUGH_MEMORY)} are needed"
    return Finding(name="memory", ok=ok, found=f"{machine.in_words(free)} free", hint=hint)


def _disk(name: str, path: Path) -> Finding:
    place = machine.existing(path)
    if not os.access(place, os.W_OK):
        return Finding(
            name=name, ok=False, found=f"cannot write {place}", hint=f"set {name} to a folder you can write"
        )
    free = machine.free_disk(path)
    ok = free >= ENOUGH_DISK
    hint = (
        "" if ok else f"free some, or set {name} to another disk: {machine.in_words(ENOUGH_DISK)} are needed"
    )
    return Finding(name=name, ok=ok, found=f"{machine.in_words(free)} free in {path}", hint=hint)


def _addresses(settings: Settings) -> Iterator[Finding]:
    if settings.bootstrap_servers:
        yield _reached("kafka", settings.bootstrap_servers.split(",")[0], "bootstrap_servers")
    if settings.registry_url:
        from urllib.parse import urlsplit

        parts = urlsplit(settings.registry_url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        yield _reached("registry", f"{parts.hostname}:{port}", "registry_url")
    if not (settings.bootstrap_servers and settings.registry_url):
        yield _ports(settings)


def _reached(name: str, address: str, setting: str) -> Finding:
    host, _, port = address.strip().rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=3):
            return Finding(name=name, ok=True, found=f"{address} answers")
    except (OSError, ValueError) as error:
        return Finding(
            name=name,
            ok=False,
            found=f"{address} does not answer: {error}",
            hint=f"start it, or mend {setting}",
        )


def _ports(settings: Settings) -> Finding:
    known = ports.remembered(folder(settings) / "ports.json")
    if find(settings) is not None:
        return Finding(
            name="ports", ok=True, found=f"the stack runs on {', '.join(map(str, known.values()))}"
        )
    taken = [f"{port} ({name})" for name, port in known.items() if not ports.is_free(port)]
    if taken:
        # Not a fault: gearshift chooses another. But whoever wrote the old one down elsewhere should know.
        return Finding(
            name="ports",
            ok=True,
            found=f"in use by another program: {', '.join(taken)}",
            hint="others will be chosen",
        )
    return Finding(name="ports", ok=True, found="free" if known else "chosen at the first start")


def _programs(settings: Settings) -> Iterator[Finding]:
    if "postgres" not in stores.wanted(settings):
        return
    try:
        yield Finding(name="postgres", ok=True, found=f"PostgreSQL 18 in {postgres.require_programs()}")
    except StackError as error:
        yield Finding(name="postgres", ok=False, found=error.what, hint=error.hint or "")


def _jars(settings: Settings) -> Finding:
    cache = settings.cache
    groups = [*_GROUPS, *(group for name in stores.wanted(settings) for group in stores.GROUPS[name])]
    absent = artifacts.missing(*groups, cache=cache)
    if absent:
        size = sum(artifact.size for artifact in absent)
        return Finding(
            name="jars", ok=True, found=f"{size / 1e6:.0f} MB to fetch", hint="the first start fetches them"
        )
    try:
        artifacts.verify(*groups, cache=cache)
    except TamperedArtifactError as error:
        return Finding(name="jars", ok=False, found=error.what, hint=error.hint or "")
    return Finding(name="jars", ok=True, found=f"{len(artifacts.members(*groups))} files, each as locked")
