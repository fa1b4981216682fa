"""The addresses of Kafka and the schema registry, of the local stack or of the user's own cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import SecretStr

from gearshift.redaction import hide_in_url, hide_named
from gearshift.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The addresses of a cluster and the client properties to connect with; its repr shows no secrets."""

    bootstrap_servers: str
    registry_url: str
    kafka: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    registry: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def __post_init__(self) -> None:
        hide_named(self.kafka)
        hide_named(self.registry)
        hide_in_url(self.registry_url)

    @classmethod
    def of(
        cls,
        settings: Settings,
        *,
        bootstrap_servers: str,
        registry_url: str,
        kafka: Mapping[str, str] | None = None,
        registry: Mapping[str, str] | None = None,
    ) -> Connection:
        """A connection to these addresses, with the given client properties or those of the settings."""
        return cls(
            bootstrap_servers=bootstrap_servers,
            registry_url=registry_url,
            kafka=_revealed(settings.kafka) if kafka is None else kafka,
            registry=_revealed(settings.registry) if registry is None else registry,
        )


def _revealed(properties: Mapping[str, SecretStr]) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in properties.items()}
