"""What must be reachable, or free, before a runner starts anything that takes long."""

from __future__ import annotations

from contextlib import suppress

from gearshift.connection import Connection
from gearshift.console.server import require_free_port
from gearshift.errors import BrokerUnreachableError
from gearshift.settings import Settings
from gearshift.storage.reaching import require_all_reachable
from gearshift.topics import Admin


def require_reachable(settings: Settings) -> None:
    """Raise if the console's port is taken, a store is not reachable, or an external Kafka rejects the login.

    A Kafka that starts later than the runner is no error.
    """
    require_free_port(settings)
    require_all_reachable(settings.checkpoints_uri, settings.warehouse_uri)
    if settings.bootstrap_servers is None:
        return
    connection = Connection.of(
        settings, bootstrap_servers=settings.bootstrap_servers, registry_url=settings.registry_url or ""
    )
    with suppress(BrokerUnreachableError), Admin(connection) as admin:
        admin.ping()
