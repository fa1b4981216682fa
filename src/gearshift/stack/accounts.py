"""Accounts of the local services: one user, and for each service a random password in a file that only its owner reads."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path

from gearshift.errors import StackError
from gearshift.stack.files import write_whole

USER = "gearshift"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True, slots=True)
class Account:
    """A user and a password, which stays out of its repr."""

    user: str
    password: str = field(repr=False)

    def within(self, address: str) -> str:
        """The address with the account in it.

        >>> Account("me", "pw").within("http://127.0.0.1:80"), Account("me", "pw").within("127.0.0.1:80")
        ('http://me:pw@127.0.0.1:80', 'me:pw@127.0.0.1:80')
        """
        scheme, found, rest = address.rpartition("://")
        return f"{scheme}{found}{self.user}:{self.password}@{rest}"


def password_file(folder: Path) -> Path:
    """Where the password of the service in this folder is kept."""
    return folder.absolute() / "password"


def account_of(folder: Path, *, make: bool = False) -> Account:
    """The account of the service in this folder; with `make`, made if there is none."""
    file = password_file(folder)
    if make and not file.exists():
        # Hexadecimal digits need no escape in any format.
        write_whole(file, secrets.token_hex(24) + "\n")
    try:
        return Account(USER, file.read_text(encoding="utf-8").strip())
    except OSError as error:
        raise StackError(
            f"cannot read {file}: {error.strerror}", hint="run as the user who started the stack"
        ) from None


def client_properties(account: Account) -> dict[str, str]:
    """How a client of ours opens the local Kafka."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": account.user,
        "sasl.password": account.password,
    }


def java_properties(account: Account) -> dict[str, str]:
    """How a Java client opens the local Kafka."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{_PLAIN} required username="{account.user}" password="{account.password}";',
    }


def listener_properties(listener: str, account: Account) -> dict[str, str]:
    """How a broker's listener asks for the account, and opens the others' with it."""
    prefix = f"listener.name.{listener.lower()}"
    jaas = java_properties(account)["sasl.jaas.config"].removesuffix(";")
    return {
        f"{prefix}.sasl.enabled.mechanisms": "PLAIN",
        f"{prefix}.plain.sasl.jaas.config": f'{jaas} user_{account.user}="{account.password}";',
    }
