"""The task slots of a session: how many there are, and waiting for those that are about to come."""

from __future__ import annotations

import logging
import re
import time

from pyspark import SparkContext
from pyspark.sql import SparkSession

from gearshift.errors import ClusterError
from gearshift.spark import private
from gearshift.spark.masters import is_local

log = logging.getLogger(__name__)

_WAIT = "spark.scheduler.maxRegisteredResourcesWaitingTime"
_WAIT_DEFAULT = 60.0
_SETTLED_AFTER = 5.0  # executors that start together register within seconds of each other
_LOCAL = re.compile(r"local\[(\d+)(?:,\d+)?\]")
_SECONDS = {"ms": 0.001, "": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600}


def total_slots(spark: SparkSession) -> int:
    """The number of task slots: N for `local[N]`, those of the registered executors for a cluster."""
    context = spark.sparkContext
    master = context.master or ""
    if is_local(master):
        local = _LOCAL.fullmatch(master)
        return int(local[1]) if local else context.defaultParallelism
    return _slots(context, private.executors(context))


def await_slots(spark: SparkSession, needed: int) -> int:
    """The number of task slots, as soon as there are enough or no more executors are about to register."""
    context = spark.sparkContext
    if is_local(context.master or ""):
        return total_slots(spark)
    requested, patience = _requested(context), _patience(context)
    while True:
        executors = private.executors(context)
        total = _slots(context, executors)
        changed = max((each.changed_at for each in executors), default=float(context.startTime) / 1000)
        quiet = time.time() - changed
        if total >= needed or quiet > (_SETTLED_AFTER if 0 < total >= requested else patience):
            return total
        time.sleep(0.1)


def await_executors(spark: SparkSession) -> None:
    """Wait for the executors that the settings request; raise if none registers in time."""
    context = spark.sparkContext
    if is_local(context.master or ""):
        return
    requested = max(1, _requested(context))
    total = await_slots(spark, requested)
    if total == 0:
        raise ClusterError(
            f"no executor of {context.master} has registered within {_patience(context):.0f} seconds",
            hint="check that its workers have spark.executor.cores and spark.executor.memory free and reach this "
            f"machine at spark.driver.host; {_WAIT} in [spark] is how long to wait",
        )
    if total < requested:
        log.warning("Spark has %s task slots of the %s that [spark] requests", total, requested)


def more_slots(master: str, needed: int) -> str:
    """The setting that gives an app more task slots.

    >>> more_slots("local[4]", 9)
    'set spark_master to local[9] or more'
    >>> more_slots("yarn", 9)
    'set spark.executor.instances and spark.executor.cores in [spark] to 9 slots or more'
    """
    if is_local(master):
        return f"set spark_master to local[{needed}] or more"
    if master.startswith("spark:"):
        return f"give the workers more cores, and spark.cores.max in [spark], if it is set, {needed} or more"
    return f"set spark.executor.instances and spark.executor.cores in [spark] to {needed} slots or more"


def _slots(context: SparkContext, executors: list[private.Executor]) -> int:
    per_task = _number(context, "spark.task.cpus", 1)
    return sum(each.cores // per_task for each in executors if each.is_active)


def _requested(context: SparkContext) -> int:
    """The number of task slots that the settings request from the cluster; 0 if they leave it open."""
    per_task = _number(context, "spark.task.cpus", 1)
    if (context.master or "").startswith("spark:"):
        return _number(context, "spark.cores.max", 0) // per_task
    if context.getConf().get("spark.dynamicAllocation.enabled") == "true":
        return 0
    # YARN and Kubernetes give two executors of one core unless told otherwise.
    cores = _number(context, "spark.executor.cores", 1)
    return _number(context, "spark.executor.instances", 2) * (cores // per_task)


def _patience(context: SparkContext) -> float:
    """Seconds to wait for executors."""
    found = re.fullmatch(r"(\d+)([a-z]*)", context.getConf().get(_WAIT) or "")
    return int(found[1]) * _SECONDS[found[2]] if found and found[2] in _SECONDS else _WAIT_DEFAULT


def _number(context: SparkContext, name: str, default: int) -> int:
    return int(context.getConf().get(name) or default)
