"""Settings: flags, then `GEARSHIFT_*`, then `gearshift.toml`, then defaults; read once, at startup.

Unknown keys are errors. A table `[profile.NAME]` in the file overrides the rest when
`GEARSHIFT_PROFILE` or `--profile` selects it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from gearshift.errors import DefinitionError, SettingsError
from gearshift.freshness import Freshness
from gearshift.redaction import hide, hide_in_url, hide_named
from gearshift.settings_sources import FILE, from_environ, from_file, merge, origin, reject_unknown
from gearshift.storage.access import register
from gearshift.storage.location import as_uri
from gearshift.storage.settings import Storage

_REGISTRY_ACCOUNT = "basic.auth.user.info"
KNOWN_SERVICES = ("cassandra", "postgres", "mariadb", "connect", "hdfs")
OPTIONAL_PROCESSES = (*KNOWN_SERVICES, "hdfs-datanode")
CLIENT_PROPERTIES = (
    "security.protocol",
    "sasl.",
    "ssl.",
    "client.id",
    "client.rack",
    "broker.address.family",
)


class Settings(BaseModel):
    """Everything that differs between machines and clusters."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    home: Path = Field(
        default=Path(".gearshift"), description="folder of the local stack, checkpoints and tables"
    )
    cache: Path = Field(
        default_factory=lambda: (
            Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gearshift"
        ),
        description="folder of downloaded jars, shared by all apps of a user",
    )
    bootstrap_servers: str | None = Field(default=None, description="your own Kafka; the local one if unset")
    registry_url: str | None = Field(
        default=None, description="your own schema registry; the local one if unset"
    )
    kafka: dict[str, SecretStr] = Field(
        default_factory=dict, description="client properties: security.protocol, sasl.*, ssl.*"
    )
    registry: dict[str, SecretStr] = Field(
        default_factory=dict, description="registry client: basic.auth.user.info, ssl.*"
    )
    cassandra: SecretStr | None = Field(
        default=None,
        description="your own Cassandra: host:port,host:port, with user:password@ in front for a login and ?ca=FILE at the end for TLS; the local one if unset",
    )
    postgres: SecretStr | None = Field(
        default=None,
        description="your own PostgreSQL: postgresql://user:password@host:port/database; the local one if unset",
    )
    mariadb: SecretStr | None = Field(
        default=None,
        description="your own MariaDB: mariadb://user:password@host:port/database; the local one if unset",
    )
    connect_url: SecretStr | None = Field(
        default=None,
        description="your own Kafka Connect: http(s)://host:port, with user:password@ for a login; the local one if unset",
    )
    services: tuple[str, ...] = Field(
        default=(),
        description="services of the local stack in addition to Kafka and the registry: cassandra, postgres, mariadb, connect, hdfs",
    )
    brokers: int = Field(default=1, description="brokers in the local stack: 1 or 3")
    secure: bool = Field(default=False, description="whether the local Kafka has TLS, SCRAM and ACLs")
    spark_master: str | None = Field(
        default=None, description="local[N], spark://, yarn or k8s://; a local[N] of the right size if unset"
    )
    spark: dict[str, str] = Field(
        default_factory=dict,
        description="further Spark configuration",
        repr=False,  # may hold the keys of an object store
    )
    checkpoints: str | None = Field(
        default=None, description="URI of the checkpoints; a folder under home if unset"
    )
    warehouse: str | None = Field(default=None, description="URI of the tables; a folder under home if unset")
    storage: Storage = Field(
        default_factory=Storage,
        description="the object store of checkpoints and warehouse: endpoint, access_key, secret_key, session_token, region, path_style",
        repr=False,
    )
    hive_metastore: str | None = Field(
        default=None,
        description="your own Hive metastore: thrift://host:port; Spark's embedded one, under home, if unset",
    )
    hive_database: str = Field(
        default="default", description="the Hive database to which tables are published"
    )
    checkpoint_interval: timedelta = Field(
        default=timedelta(minutes=4),
        description="how often real-time commits: a crash replays at most this much, and a shift waits at most this long",
    )
    maintenance: timedelta | None = Field(
        default=timedelta(days=1),
        description="how often a runner compacts and vacuums the tables its app writes; none turns it off",
    )
    scheduler: bool = Field(
        default=True,
        description="whether a runner schedules intervals; false leaves them to Airflow or gearshift batch run",
    )
    console_port: int | None = Field(
        default=None,
        description="port on which a runner serves its console, the API and /metrics; a free one if unset",
    )
    console_host: str = Field(
        default="127.0.0.1",
        description="address on which it serves them; another than loopback needs console_certificate",
    )
    console_certificate: Path | None = Field(
        default=None, description="PEM file with the console's TLS certificate"
    )
    console_key: Path | None = Field(
        default=None, description="PEM file with the certificate's key, unless both are in one file"
    )
    profile: str | None = Field(default=None, description="the [profile.NAME] in use")

    def model_post_init(self, context: object, /) -> None:
        """Redact its secrets everywhere, and open its stores to every client in this process."""
        for named in (self.kafka, self.registry):
            hide_named({name: value.get_secret_value() for name, value in named.items()})
        hide_named(self.spark)
        for place in (self.cassandra, self.postgres, self.mariadb, self.connect_url):
            hide_in_url(None if place is None else place.get_secret_value())
        access = self.storage.access
        hide(access.access_key, access.secret_key, access.session_token)
        register([uri for uri in (self.checkpoints, self.warehouse) if uri is not None], access)

    @model_validator(mode="before")
    @classmethod
    def _split_registry_url(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Move user and password out of the URL into the client property, since the URL is printed and stored."""
        url, account = _without_account(given.get("registry_url"))
        if account is None:
            return given
        registry: dict[str, Any] = dict(given.get("registry") or {})
        if _REGISTRY_ACCOUNT in registry:
            raise ValueError(f"registry_url and registry.{_REGISTRY_ACCOUNT} both have a user; keep one")
        return {**given, "registry_url": url, "registry": {**registry, _REGISTRY_ACCOUNT: account}}

    @field_validator("checkpoint_interval", "maintenance", mode="before")
    @classmethod
    def _read_duration(cls, value: object, info: ValidationInfo) -> object:
        if not isinstance(value, str):
            return value
        if value == "none" and info.field_name == "maintenance":
            return None
        try:
            return Freshness.parse(value).duration
        except DefinitionError as error:
            raise ValueError(error.what) from None

    @field_validator("checkpoint_interval")
    @classmethod
    def _at_least_five_seconds(cls, value: timedelta) -> timedelta:
        if value < timedelta(seconds=5):
            raise ValueError("must be at least 5 seconds, Spark's own minimum")
        return value

    @field_validator("maintenance")
    @classmethod
    def _at_least_a_minute(cls, value: timedelta | None) -> timedelta | None:
        if value is not None and value < timedelta(minutes=1):
            raise ValueError("must be at least a minute, or none")
        return value

    @field_validator("hive_metastore")
    @classmethod
    def _thrift(cls, value: str | None) -> str | None:
        for uri in (value or "thrift://host:9083").split(","):
            if not re.fullmatch(r"thrift://[^/\s]+:\d+", uri):
                raise ValueError("must be thrift://host:port, or several separated by commas")
        return value

    @field_validator("services", mode="before")
    @classmethod
    def _read_list(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(name for name in (part.strip() for part in value.split(",")) if name)
        return value

    @field_validator("services")
    @classmethod
    def _known_services(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in KNOWN_SERVICES:
                raise ValueError(f"unknown service {name!r}; use {', '.join(KNOWN_SERVICES)}")
        return tuple(dict.fromkeys(value))

    @field_validator("brokers")
    @classmethod
    def _one_or_three(cls, value: int) -> int:
        if value not in (1, 3):
            raise ValueError("must be 1 or 3")
        return value

    @field_validator("kafka")
    @classmethod
    def _only_client_properties(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name in value:
            if not name.startswith(CLIENT_PROPERTIES):
                raise ValueError(f"{name} is not a connection property; use {', '.join(CLIENT_PROPERTIES)}")
        return value

    def revealed(self) -> dict[str, Any]:
        """What was set, as plain data with secrets, for a child process to read with `model_validate`."""
        return {name: _plain(getattr(self, name)) for name in self.model_fields_set}

    @property
    def checkpoints_uri(self) -> str:
        """The URI of new checkpoints."""
        return as_uri(self.checkpoints or str(self.home / "checkpoints"))

    @property
    def warehouse_uri(self) -> str:
        """The URI of the tables."""
        return as_uri(self.warehouse or str(self.home / "warehouse"))


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Load the settings of a command that runs in `folder`.

    >>> load(folder=Path("/nowhere"), environ={"GEARSHIFT_BROKERS": "3"}).brokers
    3
    """
    folder = folder or Path.cwd()
    environ = os.environ if environ is None else environ
    chosen = {name: value for name, value in (flags or {}).items() if value is not None}
    variables = from_environ(environ, Settings.model_fields)
    path = folder / FILE
    written = from_file(path)
    profiles = written.pop("profile", {})
    if not isinstance(profiles, dict) or not all(isinstance(laid, dict) for laid in profiles.values()):  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        raise SettingsError(
            "profile is not a setting of the file",
            hint="write a table [profile.NAME], and select it with --profile",
            file=str(path),
        )
    profiles = cast("dict[str, dict[str, Any]]", profiles)
    name = chosen.get("profile") or variables.get("profile")
    if name is not None:
        if name not in profiles:
            raise SettingsError(
                f"unknown profile {name!r}",
                hint=f"use {', '.join(profiles)}" if profiles else f"add [profile.{name}] to {FILE}",
                file=str(path),
            )
        written = merge(written, profiles[name])
    reject_unknown(written, path, Settings.model_fields)
    merged = merge(merge(written, variables), chosen)
    home = merged.get("home", ".gearshift")
    if not isinstance(home, str | Path) or not str(home) or "\0" in str(home):
        raise SettingsError(
            "setting home: is not the path of a folder", hint=origin("home", chosen, variables, path)
        )
    merged["home"] = folder / home
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "registry_url"
        message = first["msg"].removeprefix("Value error, ")
        raise SettingsError(f"setting {key}: {message}", hint=origin(key, chosen, variables, path)) from None


def _without_account(url: object) -> tuple[object, str | None]:
    """The URL without its user and password, and those separately.

    >>> _without_account("https://me:p%40w@registry:8081")
    ('https://registry:8081', 'me:p@w')
    """
    found = re.match(r"(\w+://)([^/]*)@(.*)", url) if isinstance(url, str) else None
    return (url, None) if found is None else (found[1] + found[3], unquote(found[2]))


def _plain(value: object) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Storage):
        return {name: _plain(getattr(value, name)) for name in value.model_fields_set}
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in cast("dict[str, Any]", value).items()}
    return str(value) if isinstance(value, Path) else value
