"""Checks that this machine has everything the stack needs."""

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
from gearshift.stack import machine
from gearshift.stack.artifacts import artifacts
from gearshift.stack.artifacts.java import java_version, require_java
from gearshift.stack.lifecycle import find
from gearshift.stack.processes import ports
from gearshift.stack.services import optional as stores
from gearshift.stack.services import postgres
from gearshift.stack.stack import stack_folder

REQUIRED_MEMORY = 3 << 30  # two services, Spark and the app itself
REQUIRED_DISK = 2 << 30
OLDEST_PYTHON = (3, 11)
_GROUPS = ("kafka", "spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check, and how to fix it."""

    name: str
    ok: bool
    found: str
    hint: str = ""


def diagnose(settings: Settings) -> list[Finding]:
    """Run every check; nothing is started or downloaded."""
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
    ok = free >= REQUIRED_MEMORY
    hint = "" if ok else f"close other programs: {machine.in_gib(REQUIRED_MEMORY)} needed"
    return Finding(name="memory", ok=ok, found=f"{machine.in_gib(free)} free", hint=hint)


def _disk(name: str, path: Path) -> Finding:
    parent = machine.nearest_existing(path)
    if not os.access(parent, os.W_OK):
        return Finding(
            name=name, ok=False, found=f"cannot write to {parent}", hint=f"set {name} to a writable folder"
        )
    free = machine.free_disk(path)
    ok = free >= REQUIRED_DISK
    hint = (
        ""
        if ok
        else f"free disk space, or set {name} to another disk: {machine.in_gib(REQUIRED_DISK)} needed"
    )
    return Finding(name=name, ok=ok, found=f"{machine.in_gib(free)} free in {path}", hint=hint)


def _addresses(settings: Settings) -> Iterator[Finding]:
    if settings.bootstrap_servers:
        yield _reachable("kafka", settings.bootstrap_servers.split(",")[0], "bootstrap_servers")
    if settings.registry_url:
        from urllib.parse import urlsplit

        parts = urlsplit(settings.registry_url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        yield _reachable("registry", f"{parts.hostname}:{port}", "registry_url")
    if not (settings.bootstrap_servers and settings.registry_url):
        yield _ports(settings)


def _reachable(name: str, address: str, setting: str) -> Finding:
    host, _, port = address.strip().rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=3):
            return Finding(name=name, ok=True, found=f"{address} answers")
    except (OSError, ValueError) as error:
        return Finding(
            name=name,
            ok=False,
            found=f"{address} does not answer: {error}",
            hint=f"start it, or correct {setting}",
        )


def _ports(settings: Settings) -> Finding:
    known = ports.saved(stack_folder(settings) / "ports.json")
    if find(settings) is not None:
        return Finding(
            name="ports", ok=True, found=f"the stack is running on {', '.join(map(str, known.values()))}"
        )
    taken = [f"{port} ({name})" for name, port in known.items() if not ports.is_free(port)]
    if taken:
        # Not a failure, since other ports are chosen; but a client configured with the old port should know.
        return Finding(
            name="ports",
            ok=True,
            found=f"in use by another program: {', '.join(taken)}",
            hint="other ports will be chosen",
        )
    return Finding(name="ports", ok=True, found="free" if known else "chosen at the first start")


def _programs(settings: Settings) -> Iterator[Finding]:
    if "postgres" not in stores.local_services(settings):
        return
    try:
        yield Finding(name="postgres", ok=True, found=f"PostgreSQL 18 in {postgres.require_programs()}")
    except StackError as error:
        yield Finding(name="postgres", ok=False, found=error.what, hint=error.hint or "")


def _jars(settings: Settings) -> Finding:
    cache = settings.cache
    groups = [*_GROUPS, *(group for name in stores.local_services(settings) for group in stores.GROUPS[name])]
    absent = artifacts.missing(*groups, cache=cache)
    if absent:
        size = sum(artifact.size for artifact in absent)
        return Finding(
            name="jars",
            ok=True,
            found=f"{size / 1e6:.0f} MB to download",
            hint="the first start downloads them",
        )
    try:
        artifacts.verify(*groups, cache=cache)
    except TamperedArtifactError as error:
        return Finding(name="jars", ok=False, found=error.what, hint=error.hint or "")
    return Finding(name="jars", ok=True, found=f"{len(artifacts.members(*groups))} files match the lock")
