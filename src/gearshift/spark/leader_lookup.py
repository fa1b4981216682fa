"""Makes Spark find the new leader of a partition as soon as there is one, not a minute after the old one failed."""

from __future__ import annotations

import logging
from datetime import timedelta

from pyspark.sql import SparkSession

from gearshift.spark.private import Py4JError, set_admin_timeout
from gearshift.topics.client import ANSWER_WITHIN

log = logging.getLogger(__name__)

_PAUSE = timedelta(milliseconds=200)
_TIMEOUT = timedelta(minutes=3)  # Spark's own three attempts of a minute each


def retry_options() -> dict[str, str]:
    """Source options that make Spark retry its offset lookups often, within its usual total time."""
    return {
        "fetchOffset.numRetries": str(_TIMEOUT // (ANSWER_WITHIN + _PAUSE)),
        "fetchOffset.retryIntervalMs": str(_PAUSE // timedelta(milliseconds=1)),
    }


def shorten_admin_timeout(spark: SparkSession) -> None:
    """Give the driver's admin client a timeout of seconds instead of a minute.

    Before each batch the driver asks the leader of each partition for its end offset. Kafka's admin client looks the
    leader up once and keeps the request for that broker until the whole call times out, even if the broker is dead and
    has been replaced; only the next call looks the leader up again. No source option shortens that alone: the
    executors' consumers read the same options, and they do follow a leader but fail the query at their timeout. So the
    default in the admin client's configuration is changed.
    """
    try:
        set_admin_timeout(spark, ANSWER_WITHIN // timedelta(milliseconds=1))
    except Py4JError as error:  # another Kafka client: a failed leader then costs a minute
        log.warning("Spark's admin client keeps its timeout of a minute: %s", error)
