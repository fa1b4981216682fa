"""What a standby needs."""

from __future__ import annotations

from gearshift import stack as local
from gearshift.console.runner_info import RunnerInfo
from gearshift.errors import RunnerError
from gearshift.settings import Settings
from gearshift.stack.services.optional import local_services

_HINT = 'start the local services with "gearshift up --detach", and then both runners'


def require_stack(settings: Settings) -> None:
    """Raise unless the services go on when the runner that works ends."""
    if settings.bootstrap_servers and settings.registry_url and not local_services(settings):
        return
    found = local.find(settings)
    if found is None or found.owner is None:
        raise RunnerError(
            f"a standby starts no services, and none are running in {settings.home}", hint=_HINT
        )
    works = RunnerInfo.read(settings.home)
    if works is not None and works.pid == found.owner:
        raise RunnerError(
            f"the services in {settings.home} end with the runner that started them, process {works.pid.number}",
            hint=_HINT,
        )
