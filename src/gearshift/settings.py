"""Settings: flags, then `GEARSHIFT_*`, then `gearshift.toml`, then defaults; read once, at the entrance.

Unknown keys are errors. A table `[profile.NAME]` in the file is laid over the rest when
`GEARSHIFT_PROFILE` or `--profile` names it.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
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
from gearshift.location import as_uri
from gearshift.redaction import hide_in_url, hide_named

FILE = "gearshift.toml"
_REGISTRY_ACCOUNT = "basic.auth.user.info"
PREFIX = "GEARSHIFT_"
KNOWN_SERVICES = ("cassandra", "postgres", "connect")
CLIENT_PROPERTIES = (
    "security.protocol",
    "sasl.",
    "ssl.",
    "client.id",
    "client.rack",
    "broker.address.family",
)


class Settings(BaseModel):
    """Everything that differs from one machine or cluster to the next."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    home: Path = Field(
        default=Path(".gearshift"), description="where the local stack, checkpoints and tables live"
    )
    cache: Path = Field(
        default_factory=lambda: (
            Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gearshift"
        ),
        description="where downloaded jars are kept, once per user",
    )
    bootstrap_servers: str | None = Field(
        default=None, description="your own Kafka; none means the local stack"
    )
    registry_url: str | None = Field(
        default=None, description="your own schema registry; none means the local one"
    )
    kafka: dict[str, SecretStr] = Field(
        default_factory=dict, description="client properties: security.protocol, sasl.*, ssl.*"
    )
    registry: dict[str, SecretStr] = Field(
        default_factory=dict, description="registry client: basic.auth.user.info, ssl.*"
    )
    cassandra: SecretStr | None = Field(
        default=None,
        description="your own Cassandra: host:port,host:port, with user:password@ before it if it asks and ?ca=FILE behind it for TLS; none means the local one",
    )
    postgres: SecretStr | None = Field(
        default=None,
        description="your own PostgreSQL: postgresql://user:password@host:port/database; none means the local one",
    )
    connect_url: SecretStr | None = Field(
        default=None,
        description="your own Kafka Connect: http(s)://host:port, with user:password@ if it asks; none means the local one",
    )
    services: tuple[str, ...] = Field(
        default=(),
        description="what the local stack has beside Kafka and the registry: cassandra, postgres, connect",
    )
    brokers: int = Field(default=1, description="brokers in the local stack: 1 or 3")
    spark_master: str | None = Field(
        default=None, description="local[N], spark://, yarn or k8s://; none sizes local[N]"
    )
    spark: dict[str, str] = Field(
        default_factory=dict,
        description="further Spark configuration",
        repr=False,  # an object store's keys come this way
    )
    checkpoints: str | None = Field(
        default=None, description="URI of the checkpoints; none puts them under home"
    )
    warehouse: str | None = Field(default=None, description="URI of the tables; none puts them under home")
    hive_metastore: str | None = Field(
        default=None,
        description="your own Hive metastore: thrift://host:port; none means the one that Spark embeds, under home",
    )
    hive_database: str = Field(
        default="default", description="the database of Hive that tables are published to"
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
        description="whether a runner runs the intervals of calendars; false leaves them to Airflow or gearshift batch run",
    )
    metrics_port: int | None = Field(
        default=None, description="where a runner serves /metrics for Prometheus; none takes a free port"
    )
    profile: str | None = Field(default=None, description="the [profile.NAME] in use")

    def model_post_init(self, context: object, /) -> None:
        """Let none of its secrets be shown."""
        for named in (self.kafka, self.registry):
            hide_named({name: value.get_secret_value() for name, value in named.items()})
        hide_named(self.spark)
        for place in (self.cassandra, self.postgres, self.connect_url):
            hide_in_url(None if place is None else place.get_secret_value())

    @model_validator(mode="before")
    @classmethod
    def _split_registry_url(cls, given: dict[str, Any]) -> dict[str, Any]:
        """An address is printed and kept in many places: its user and password become the client property for them."""
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
    def _long_enough(cls, value: timedelta) -> timedelta:
        if value < timedelta(seconds=5):
            raise ValueError("must be at least 5 seconds, Spark's own minimum")
        return value

    @field_validator("maintenance")
    @classmethod
    def _seldom_enough(cls, value: timedelta | None) -> timedelta | None:
        if value is not None and value < timedelta(minutes=1):
            raise ValueError("must be at least a minute, or none")
        return value

    @field_validator("hive_metastore")
    @classmethod
    def _thrift(cls, value: str | None) -> str | None:
        for uri in (value or "thrift://host:9083").split(","):
            if not re.fullmatch(r"thrift://[^/\s]+:\d+", uri):
                raise ValueError("must be thrift://host:port, several with commas between")
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
                raise ValueError(f"no service is named {name!r}; there are {', '.join(KNOWN_SERVICES)}")
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
                raise ValueError(
                    f"{name} is not a connection property; allowed are {', '.join(CLIENT_PROPERTIES)}"
                )
        return value

    def revealed(self) -> dict[str, Any]:
        """What was set, as plain data with its secrets, for a process of ours to read with `model_validate`."""
        return {name: _plain(getattr(self, name)) for name in self.model_fields_set}

    @property
    def checkpoints_uri(self) -> str:
        """Where checkpoints are born."""
        return as_uri(self.checkpoints or str(self.home / "checkpoints"))

    @property
    def warehouse_uri(self) -> str:
        """Where tables are kept."""
        return as_uri(self.warehouse or str(self.home / "warehouse"))


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Read the settings for a command started in `folder`.

    >>> load(folder=Path("/nowhere"), environ={"GEARSHIFT_BROKERS": "3"}).brokers
    3
    """
    folder = folder or Path.cwd()
    environ = os.environ if environ is None else environ
    chosen = {name: value for name, value in (flags or {}).items() if value is not None}
    from_environ = _from_environ(environ)
    path = folder / FILE
    from_file = _from_file(path)
    profiles = from_file.pop("profile", {})
    if not isinstance(profiles, dict) or not all(isinstance(laid, dict) for laid in profiles.values()):  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        raise SettingsError(
            "profile is no setting of the file",
            hint="write a table [profile.NAME], and choose it with --profile",
            file=str(path),
        )
    profiles = cast("dict[str, dict[str, Any]]", profiles)
    name = chosen.get("profile") or from_environ.get("profile")
    if name is not None:
        if name not in profiles:
            raise SettingsError(
                f"no profile {name!r}",
                hint=f"{FILE} has {', '.join(profiles) or 'no profiles'}",
                file=str(path),
            )
        from_file = _merge(from_file, profiles[name])
    _refuse_unknown(from_file, path)
    merged = _merge(_merge(from_file, from_environ), chosen)
    if "home" in merged:
        merged["home"] = folder / merged["home"]
    else:
        merged["home"] = folder / ".gearshift"
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "registry_url"
        message = first["msg"].removeprefix("Value error, ")
        raise SettingsError(
            f"setting {key}: {message}", hint=_origin(key, chosen, from_environ, path)
        ) from None


def _without_account(url: object) -> tuple[object, str | None]:
    """An address without its user and password, and those apart.

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
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in cast("dict[str, Any]", value).items()}
    return str(value) if isinstance(value, Path) else value


def _from_file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"not valid TOML: {error}", hint="mend the file", file=str(path)) from None


def _from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX):
            continue
        name, _, entry = variable.removeprefix(PREFIX).lower().partition("__")
        if name not in Settings.model_fields:
            raise SettingsError(f"unknown setting {variable}", hint=_suggest(name))
        if entry:  # GEARSHIFT_KAFKA__SASL_USERNAME=… is kafka."sasl.username"
            entries = found.setdefault(name, {})
            if not isinstance(entries, dict):
                raise SettingsError(f"{PREFIX}{name.upper()} and {variable} are both set", hint="keep one")
            entries[entry.replace("_", ".")] = value
        elif name in found:
            raise SettingsError(f"{variable} and {variable}__… are both set", hint="keep one")
        else:
            found[name] = value
    return found


def _refuse_unknown(found: Mapping[str, Any], path: Path) -> None:
    for name in found:
        if name not in Settings.model_fields:
            lines = path.read_text(encoding="utf-8").splitlines()
            # As a key, or as a table of its own or of a profile's.
            key = re.compile(rf'\s*(\[\s*(profile\.[^.\]]+\.)?)?"?{re.escape(name)}"?\s*[=.\]]')
            line = next((n for n, text in enumerate(lines, 1) if key.match(text)), None)
            raise SettingsError(f"unknown setting {name!r}", hint=_suggest(name), file=str(path), line=line)


def _suggest(name: str) -> str:
    close = difflib.get_close_matches(name, Settings.model_fields, 1)
    return f"did you mean {close[0]!r}?" if close else f"the settings are {', '.join(Settings.model_fields)}"


def _merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        if isinstance(value, dict) and isinstance(below, dict):
            merged[name] = {**cast("dict[str, Any]", below), **cast("dict[str, Any]", value)}
        else:
            merged[name] = value
    return merged


def _origin(key: str, chosen: Mapping[str, Any], from_environ: Mapping[str, Any], path: Path) -> str:
    name = key.split(".")[0]
    if name in chosen:
        return f"change --{'with' if name == 'services' else name.replace('_', '-')}"
    if name in from_environ:
        return f"change {PREFIX}{name.upper()}"
    return f"change it in {path}"
