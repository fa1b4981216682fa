"""Ends Spark before it writes beside another runner that has, or may have, taken this one's lease.

Spark's Java process goes on while Python is stopped, and its tasks write to topics, which ask for no lease. So a thread
in that process watches both, and the store (`jvm/Fence.java`).
"""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from gearshift.errors import LeaseLostError
from gearshift.spark import private
from gearshift.stack.processes.service import Pid
from gearshift.storage.lease import Lease
from gearshift.storage.location import spark_path


class Fence:
    """Guards one lease of a session; a lease that nobody can take needs no guard."""

    def __init__(self, spark: SparkSession, lease: Lease) -> None:
        self._spark = spark
        self._limit = lease.stall_limit
        self._java = Pid.of(private.java_pid(spark))
        if self._limit is not None and lease.next is not None:
            private.open_fence(spark, spark_path(lease.next), os.getpid(), int(self._limit * 1000))

    def require(self) -> None:
        """Raise if Spark has ended."""
        if self._limit is not None and (self._java is None or not self._java.alive):
            raise LeaseLostError(
                f"this runner stood still for more than {self._limit:g} s and another may have taken over, or its "
                "Spark failed",
                hint="start it again, with --standby if another one runs; logs/spark.log in its home has the reason",
            )

    def close(self) -> None:
        """Let Spark go on without the lease, which this runner is about to release."""
        if self._limit is not None:
            private.close_fence(self._spark)
