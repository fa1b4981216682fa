"""Where settings are written: `gearshift.toml` and `GEARSHIFT_*`, as plain data before they are validated."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from gearshift.errors import SettingsError

FILE = "gearshift.toml"
PREFIX = "GEARSHIFT_"
# Kubernetes tells every container the address of each service; one named gearshift-console is GEARSHIFT_CONSOLE_….
_OF_A_SERVICE = re.compile(
    r"GEARSHIFT_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)"
)
_ADDRESS = re.compile(r"(tcp|udp|sctp)://\S+:\d+")


def from_file(path: Path) -> dict[str, Any]:
    """The tables and keys of the file; empty without one."""
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"not valid TOML: {error}", hint="fix the file", file=str(path)) from None
    except OSError as error:
        raise SettingsError(f"cannot read the file: {error.strerror}", file=str(path)) from None


def from_environ(environ: Mapping[str, str], known: Iterable[str]) -> dict[str, Any]:
    """The settings among the environment's variables."""
    found: dict[str, Any] = {}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or _names_a_service(variable, value):
            continue
        name, _, entry = variable.removeprefix(PREFIX).lower().partition("__")
        if name not in known:
            raise SettingsError(f"unknown setting {variable}", hint=_suggest(name, known))
        if entry:  # GEARSHIFT_KAFKA__SASL_USERNAME=… is kafka."sasl.username"
            entries = found.setdefault(name, {})
            if not isinstance(entries, dict):
                raise SettingsError(f"{PREFIX}{name.upper()} and {variable} are both set", hint="keep one")
            entries[entry if name == "storage" else entry.replace("_", ".")] = value
        elif name in found:
            raise SettingsError(f"{variable} and {variable}__… are both set", hint="keep one")
        else:
            found[name] = value
    return found


def _names_a_service(variable: str, value: str) -> bool:
    """Whether Kubernetes has set a variable.

    >>> _names_a_service("GEARSHIFT_CONSOLE_PORT", "tcp://10.0.0.1:80"), _names_a_service("GEARSHIFT_CONSOLE_PORT", "80")
    (True, False)
    """
    if variable.endswith("_PORT") and _ADDRESS.fullmatch(value):
        return True
    return _OF_A_SERVICE.fullmatch(variable) is not None


def reject_unknown(found: Mapping[str, Any], path: Path, known: Iterable[str]) -> None:
    """Raise if the file has a key that is no setting, with its line."""
    for name in found:
        if name not in known:
            lines = path.read_text(encoding="utf-8").splitlines()
            # As a key, as a table, or as a table of a profile.
            key = re.compile(rf'\s*(\[\s*(profile\.[^.\]]+\.)?)?"?{re.escape(name)}"?\s*[=.\]]')
            line = next((n for n, text in enumerate(lines, 1) if key.match(text)), None)
            raise SettingsError(
                f"unknown setting {name!r}", hint=_suggest(name, known), file=str(path), line=line
            )


def _suggest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(known)}"


def merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Settings over settings, key by key also inside tables."""
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        if isinstance(value, dict) and isinstance(below, dict):
            merged[name] = {**cast("dict[str, Any]", below), **cast("dict[str, Any]", value)}
        else:
            merged[name] = value
    return merged


def origin(key: str, flags: Mapping[str, Any], environ: Mapping[str, Any], path: Path) -> str:
    """Where a wrong setting is changed."""
    name = key.split(".")[0]
    if name in flags:
        return f"change --{'with' if name == 'services' else name.replace('_', '-')}"
    if name in environ:
        return f"change {PREFIX}{name.upper()}"
    return f"change it in {path}"
