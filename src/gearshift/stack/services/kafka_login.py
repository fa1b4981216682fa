"""How clients log in to the local Kafka, and how its brokers require it: plain by default, or secured.

A plain Kafka has one account, its superuser, and speaks SASL/PLAIN without TLS. A secured one speaks SASL/SCRAM over
TLS and has two: `admin` is the brokers' own and the superuser; `gearshift` has the rights that the apps need.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gearshift.stack.services import accounts
from gearshift.stack.services.accounts import Account
from gearshift.stack.services.certificates import authority_file, make_certificates, server_file

ADMIN = "admin"
SCRAM = "SCRAM-SHA-512"
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    SCRAM: "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True, slots=True)
class Login:
    """An account of the local Kafka, and the authority of its certificate; None for a plain Kafka."""

    account: Account
    authority: Path | None = None

    @property
    def mechanism(self) -> str:
        """The SASL mechanism."""
        return "PLAIN" if self.authority is None else SCRAM

    @property
    def protocol(self) -> str:
        """The security protocol."""
        return "SASL_PLAINTEXT" if self.authority is None else "SASL_SSL"

    @property
    def scram_credential(self) -> str:
        """The account as Kafka's storage tool adds it."""
        return f"{SCRAM}=[name={self.account.user},password={self.account.password}]"

    def client_properties(self) -> dict[str, str]:
        """The properties with which librdkafka connects."""
        trusted = {} if self.authority is None else {"ssl.ca.location": str(self.authority)}
        return {
            "security.protocol": self.protocol,
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.account.user,
            "sasl.password": self.account.password,
            **trusted,
        }

    def java_properties(self) -> dict[str, str]:
        """The properties with which a Java client connects."""
        return {
            "security.protocol": self.protocol,
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": f"{_jaas(self.mechanism, self.account)};",
            **({} if self.authority is None else _trusting(self.authority)),
        }


def login_of(folder: Path, *, make: bool = False) -> Login:
    """The login of clients of the Kafka in this folder."""
    return Login(accounts.account_of(folder, make=make), _authority(folder))


def superuser_of(folder: Path, *, make: bool = False) -> Login:
    """The login of its brokers and of its administrator."""
    authority = _authority(folder)
    if authority is None:
        return login_of(folder, make=make)
    return Login(accounts.account_of(folder / ADMIN, make=make, user=ADMIN), authority)


def secure(folder: Path, secured: bool) -> None:
    """Make a new Kafka secured or plain."""
    if secured:
        make_certificates(folder)
    else:
        authority_file(folder).unlink(missing_ok=True)


def is_secured(folder: Path) -> bool:
    """Whether the Kafka in this folder is secured."""
    return _authority(folder) is not None


def broker_properties(folder: Path, login: Login) -> dict[str, str]:
    """The properties with which brokers require a login on both listeners, and connect to each other with theirs.

    A controller learns SCRAM credentials from the metadata log that it is about to join, so controllers use PLAIN.
    """
    plain = _jaas("PLAIN", login.account) + f' user_{login.account.user}="{login.account.password}";'
    broker = plain if login.authority is None else f"{_jaas(SCRAM, login.account)};"
    properties = {
        "listener.security.protocol.map": f"CONTROLLER:{login.protocol},BROKER:{login.protocol}",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": plain,
        "listener.name.broker.sasl.enabled.mechanisms": login.mechanism,
        f"listener.name.broker.{login.mechanism.lower()}.sasl.jaas.config": broker,
        "sasl.mechanism.inter.broker.protocol": login.mechanism,
        "sasl.mechanism.controller.protocol": "PLAIN",
        "super.users": f"User:{login.account.user}",
    }
    if login.authority is None:
        return properties
    return properties | {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server_file(folder)),
        **_trusting(login.authority),
    }


def _authority(folder: Path) -> Path | None:
    file = authority_file(folder)
    return file if file.exists() else None


def _trusting(authority: Path) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority)}


def _jaas(mechanism: str, account: Account) -> str:
    return f'{_MODULES[mechanism]} required username="{account.user}" password="{account.password}"'
