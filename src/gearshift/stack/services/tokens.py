"""The bearer token of the local registry."""

from __future__ import annotations

import secrets
from pathlib import Path

from gearshift.errors import StackError
from gearshift.storage.shared_files import write_whole


def token_file(folder: Path) -> Path:
    """The token file of the registry in this folder."""
    return folder.absolute() / "token"


def read_token(folder: Path) -> str:
    """The token of the registry in this folder."""
    file = token_file(folder)
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise StackError(
            f"cannot read {file}: {error.strerror}", hint="run as the user who started the stack"
        ) from None


def make_token(folder: Path) -> str:
    """The token of the registry in this folder, created if it is missing."""
    if not token_file(folder).exists():
        write_whole(token_file(folder), secrets.token_urlsafe(32) + "\n")
    return read_token(folder)


def client_properties(token: str) -> dict[str, str]:
    """The properties with which Confluent's registry client sends the token."""
    return {
        "bearer.auth.credentials.source": "STATIC_TOKEN",
        "bearer.auth.token": token,
        # Required for Confluent Cloud; they become headers that the local registry ignores.
        "bearer.auth.logical.cluster": "local",
        "bearer.auth.identity.pool.id": "local",
    }
