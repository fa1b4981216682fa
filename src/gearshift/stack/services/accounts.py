"""Accounts of the local services: one user, with a random password per service in a file that only its owner can read."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path

from gearshift.errors import StackError
from gearshift.storage.shared_files import write_whole

USER = "gearshift"


@dataclass(frozen=True, slots=True)
class Account:
    """A user and a password, which is left out of the repr."""

    user: str
    password: str = field(repr=False)

    def insert_into(self, address: str) -> str:
        """The address with user and password.

        >>> account = Account("me", "pw")
        >>> account.insert_into("http://127.0.0.1:80"), account.insert_into("127.0.0.1:80")
        ('http://me:pw@127.0.0.1:80', 'me:pw@127.0.0.1:80')
        """
        scheme, separator, rest = address.rpartition("://")
        return f"{scheme}{separator}{self.user}:{self.password}@{rest}"


def password_file(folder: Path) -> Path:
    """The password file of the service in this folder."""
    return folder.absolute() / "password"


def account_of(folder: Path, *, make: bool = False, user: str = USER) -> Account:
    """The account of the service in this folder; `make` creates it if it is missing."""
    file = password_file(folder)
    if make and not file.exists():
        # Hexadecimal digits need no escaping in any format.
        write_whole(file, secrets.token_hex(24) + "\n")
    try:
        return Account(user, file.read_text(encoding="utf-8").strip())
    except OSError as error:
        raise StackError(
            f"cannot read {file}: {error.strerror}", hint="run as the user who started the stack"
        ) from None
