"""Run only the deliveries of an app, here or on another machine, without Spark."""

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
from gearshift.runner.deliveries.consumer_group import ConsumerGroup, start_consumer_groups
from gearshift.runner.registering import grant_rules, make_topics
from gearshift.schemas import Registry
from gearshift.settings import Settings
from gearshift.topics import Admin


class Deliveries:
    """The running deliveries of an app; leaving the context stops them."""

    def __init__(
        self, app: App, settings: Settings, *, file: Path | None, progress: Callable[[str], None]
    ) -> None:
        self.graph = app.graph
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        self._settings = settings
        self._file = file
        self._progress = progress
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        if not self.graph.deliveries:
            raise DefinitionError("the app has no delivery", hint="declare one with @app.delivery")
        with ExitStack() as opened:
            self.connection = local.connect(self._settings)
            grant_rules(self.graph, self._settings)
            topics = [delivery.topic for delivery in self.graph.deliveries.values()]
            with Admin(self.connection) as admin, Registry(self.connection) as registry:
                make_topics(self.graph, topics, admin, registry)
            self.consumer_groups = start_consumer_groups(
                self.graph,
                self.connection,
                self._settings,
                file=self._file,
                progress=self._progress,
                at_exit=partial(_last, opened),
                extra=f"-{os.getpid()}",
            )
            self._exit = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()

    def require_working(self) -> None:
        """Do nothing: the consumer group decides who delivers."""

    def status(self) -> dict[str, Any]:
        """Their status as plain data."""
        return {
            "app": self.graph.app,
            "bootstrap_servers": self.connection.bootstrap_servers,
            "pipelines": [],
            "deliveries": [each.status() for each in self.consumer_groups.values()],
            "sources": [],
        }


def _last(exit_: ExitStack, close: Callable[[], None]) -> None:
    exit_.callback(close)
