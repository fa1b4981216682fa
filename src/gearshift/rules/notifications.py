"""Rules for notifications."""

from __future__ import annotations

import inspect
from typing import get_args

from gearshift.alert import Level
from gearshift.definitions import Graph, Notification
from gearshift.record import Destination
from gearshift.rules.declared import invalid, require_name, require_new


def check_notification(notification: Notification, graph: Graph) -> None:
    """Require a function of one parameter, a destination and known levels."""
    name, where = notification.name, notification.defined_at
    require_name(name, "notification", where)
    require_new(name, "notification", graph.notifications, where)
    if not isinstance(notification.target, Destination):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise invalid(
            f"notification {name} goes to {notification.target!r}",
            "pass a destination as to=, such as gs.destinations.Webhook(URL)",
            where,
        )
    if inspect.iscoroutinefunction(notification.handler):
        raise invalid(f"the function of notification {name} is async", "write it with def", where)
    try:
        inspect.signature(notification.handler).bind(None)
    except TypeError:
        raise invalid(
            f"the function of notification {name} does not take one alert",
            "give it one parameter: alert: gs.Alert",
            where,
        ) from None
    unknown = [level for level in notification.levels if level not in get_args(Level)]
    if unknown or not notification.levels:
        raise invalid(
            f"notification {name} has levels={notification.levels!r}", "use 'error', 'warning' or both", where
        )
