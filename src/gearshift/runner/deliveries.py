"""Only the deliveries of an app: more consumers for its groups, here or on another machine, without Spark."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gearshift import stack as local
from gearshift.app import App
from gearshift.errors import DefinitionError
from gearshift.runner.crew import Crew, start_crews
from gearshift.schemas import Registry
from gearshift.settings import Settings
from gearshift.topics import Admin


class Deliveries:
    """The deliveries of an app, running; leaving it ends them in order."""

    def __init__(
        self, app: App, settings: Settings, *, file: Path | None, said: Callable[[str], None]
    ) -> None:
        self.graph = app.graph
        self.crews: dict[str, Crew] = {}
        self._settings = settings
        self._file = file
        self._said = said
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        if not self.graph.deliveries:
            raise DefinitionError("the app has no delivery", hint="declare one with @app.delivery")
        with ExitStack() as opened:
            self.connection = local.connect(self._settings)
            topics = [delivery.topic for delivery in self.graph.deliveries.values()]
            with Admin(self.connection) as admin, Registry(self.connection) as registry:
                admin.ensure(topics)
                for topic in topics:
                    if topic.envelope is None:  # changes are written by Connect, as it sees their table
                        registry.register(topic)
            self.crews = start_crews(
                self.graph,
                self.connection,
                self._settings,
                file=self._file,
                said=self._said,
                at_exit=partial(_last, opened),
                extra=f"-{os.getpid()}",
            )
            self._exit = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()

    def status(self) -> dict[str, Any]:
        """How they are, as plain data."""
        return {
            "app": self.graph.app,
            "bootstrap_servers": self.connection.bootstrap_servers,
            "pipelines": [],
            "deliveries": [crew.status() for crew in self.crews.values()],
            "sources": [],
        }


def _last(exit_: ExitStack, close: Callable[[], None]) -> None:
    exit_.callback(close)
