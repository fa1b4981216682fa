"""Lets Spark find the new leader of a partition as soon as there is one, not a minute after the old one died."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]
from pyspark.sql import SparkSession

from gearshift.topics.client import ANSWER_WITHIN

log = logging.getLogger(__name__)

_PAUSE = timedelta(milliseconds=200)
_GIVES_UP_AFTER = timedelta(minutes=3)  # Spark's own three tries of a minute each
_ADMIN = "org.apache.kafka.clients.admin.AdminClientConfig"


def asking() -> dict[str, str]:
    """The source options with which Spark asks again where a topic ends: often, and no longer than before."""
    return {
        "fetchOffset.numRetries": str(_GIVES_UP_AFTER // (ANSWER_WITHIN + _PAUSE)),
        "fetchOffset.retryIntervalMs": str(_PAUSE // timedelta(milliseconds=1)),
    }


def ask_briefly(spark: SparkSession) -> None:
    """Give the driver's admin client seconds for an answer instead of a minute.

    Before each batch the driver asks the leader of each partition where it ends. Kafka's admin client looks
    the leader up once and then holds the question for that broker, also when it is dead and long replaced,
    until the whole call has timed out; only the next call looks the leader up again. No source option can
    shorten that alone: the executors' consumers read the same options, and they do follow a leader, but fail
    the query when their time is over. So it is the default of the admin client's own configuration that changes.
    """
    jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    try:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        definition = jvm.java.lang.Class.forName(_ADMIN, True, loader).getDeclaredField("CONFIG")
        definition.setAccessible(True)
        keys = definition.get(None).configKeys()
        for name in ("default.api.timeout.ms", "request.timeout.ms"):
            key = keys.get(name)
            default = key.getClass().getField("defaultValue")
            default.setAccessible(True)
            default.set(key, ANSWER_WITHIN // timedelta(milliseconds=1))
    except Py4JError as error:  # another Kafka client: all works, but after a leader's death a minute later
        log.warning("Spark's admin client keeps its time limit of a minute: %s", error)
