"""Accounts of the local services: a user and a random password, made at the first start, in a file that only its owner reads."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from gearshift.errors import StackError
from gearshift.stack.files import write_whole

USER = "gearshift"
_KAFKA_FILE = "client.properties"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True, slots=True)
class Account:
    """A user and a password, which stays out of its repr."""

    user: str
    password: str = field(repr=False)


def new_password() -> str:
    """A password that nobody guesses, of letters that no format has to escape."""
    return secrets.token_hex(24)


def kafka_file(folder: Path) -> Path:
    """The file that opens the local Kafka for any Java client: `kafka-topics.sh --command-config FILE`."""
    return folder.absolute() / _KAFKA_FILE


def kafka_account(folder: Path, *, make: bool = False) -> Account:
    """The account of the local Kafka in this folder; with `make`, made if there is none."""
    file = kafka_file(folder)
    if make and not file.exists():
        made = Account(USER, new_password())
        write_whole(file, "".join(f"{name}={value}\n" for name, value in java_properties(made).items()))
    try:
        found = re.search(r'username="(\w+)" password="(\w+)"', file.read_text(encoding="utf-8"))
    except OSError as error:
        raise StackError(
            f"cannot read {file}: {error.strerror}", hint="run as the user who started the stack"
        ) from None
    if found is None:
        raise StackError(
            f"{file} names no username and password", hint="delete it, then gearshift down and up"
        )
    return Account(found[1], found[2])


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
