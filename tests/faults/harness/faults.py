"""The faults: what each breaks, and how it is healed when its block ends."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import NewPartitions

from gearshift.schemas import Decoder, Registry
from gearshift.topics import read
from tests.faults.harness import receivers
from tests.faults.harness.world import World
from tests.support import eventually


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, and what it reaches: two that reach the same do not happen at once."""

    name: str
    reaches: str
    happen: Callable[[World], AbstractContextManager[None]]
    alone: bool = False
    """Whether it waits until everything that was sent has arrived, and has the world for itself."""


# PostgreSQL


@contextmanager
def _row_refused(world: World) -> Iterator[None]:
    code = world.chance.choice(("P0001", "44000", "23514"))
    world.database.execute(
        "create or replace function refuse() returns trigger language plpgsql as $$ begin "
        f"if new.n % 5 = 0 then raise exception 'refused' using errcode = '{code}'; end if; return new; end $$"
    )
    world.database.execute(
        "create trigger refuse before insert on arrivals for each row execute function refuse()"
    )
    try:
        yield
    finally:
        world.database.execute("drop trigger refuse on arrivals")


@contextmanager
def _login_refused(world: World) -> Iterator[None]:
    info = world.database.info
    _end_sessions(world, f"alter role {info.user} password 'changed'")
    try:
        yield
    finally:
        world.database.execute(f"alter role {info.user} password '{info.password}'")


@contextmanager
def _table_dropped(world: World) -> Iterator[None]:
    world.database.execute("alter table arrivals rename to elsewhere")
    try:
        yield
    finally:
        world.database.execute("alter table elsewhere rename to arrivals")


@contextmanager
def _disk_of_the_database_full(world: World) -> Iterator[None]:
    world.database.execute(
        "create or replace function full_disk() returns trigger language plpgsql as "
        "$$ begin raise exception 'No space left on device' using errcode = '53100'; end $$"
    )
    world.database.execute(
        "create trigger full_disk before insert on arrivals for each row execute function full_disk()"
    )
    try:
        yield
    finally:
        world.database.execute("drop trigger full_disk on arrivals")


def _end_sessions(world: World, first: str) -> None:
    world.database.execute(first)  # pyright: ignore[reportArgumentType]
    world.database.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where usename = current_user and pid <> pg_backend_pid()"
    )


# Cassandra


@contextmanager
def _cassandra_gone(world: World) -> Iterator[None]:
    world.kill_service("cassandra")
    try:
        yield
    finally:
        world.restart_service("cassandra")


# receivers of messages


def _receiver(which: str, how: str) -> Callable[[World], AbstractContextManager[None]]:
    @contextmanager
    def happen(world: World) -> Iterator[None]:
        receiver: receivers.Receiver = getattr(world, which)
        receiver.fault = how
        try:
            yield
        finally:
            receiver.fault = None

    return happen


@contextmanager
def _mail_login_refused(world: World) -> Iterator[None]:
    world.smtp.users = {"me": "another"}
    world.smtp.hang_up()
    try:
        yield
    finally:
        world.smtp.users = {"me": "secret"}


@contextmanager
def _mail_answer_lost(world: World) -> Iterator[None]:
    times = world.chance.randint(1, 3)
    world.lost_mail_answers += times
    world.smtp.hang_up_on(".", times)
    yield


# processes


@contextmanager
def _consumer_killed(world: World) -> Iterator[None]:
    for pid in world.chance.sample(world.consumers() or [0], 1):
        if pid:
            world.kills += 1
            os.kill(pid, signal.SIGKILL)
    yield


@contextmanager
def _consumers_frozen(world: World) -> Iterator[None]:
    pids = world.consumers()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def _app_killed(world: World) -> Iterator[None]:
    world.kill_app()
    try:
        yield
    finally:
        world.start_app()


@contextmanager
def _app_stopped(world: World) -> Iterator[None]:
    world.stop_app()
    try:
        yield
    finally:
        world.start_app()


@contextmanager
def _shifted(world: World) -> Iterator[None]:
    gear = world.chance.choice(("real-time", "near-real-time"))
    world.log(f"  shift of copy to {gear}: {world.shift('copy', gear)}")
    yield


@contextmanager
def _clock_jumps(world: World) -> Iterator[None]:
    world.set_clock_ahead(world.chance.choice((-7200.0, 7200.0)))
    try:
        yield
    finally:
        world.set_clock_ahead(0.0)


# Kafka and the registry


@contextmanager
def _broker_gone(world: World) -> Iterator[None]:
    world.kill_service("kafka-1")
    try:
        yield
    finally:
        world.restart_service("kafka-1")


@contextmanager
def _registry_gone(world: World) -> Iterator[None]:
    world.kill_service("registry")
    try:
        yield
    finally:
        world.restart_service("registry")


@contextmanager
def _disk_of_the_broker_full(world: World) -> Iterator[None]:
    """No file may grow: the broker meets the same failed writes as on a full disk."""
    broker = world.pid_of("kafka-1")
    before = resource.prlimit(broker, resource.RLIMIT_FSIZE)
    resource.prlimit(broker, resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # such a broker ends by itself, and another takes its place
            resource.prlimit(broker, resource.RLIMIT_FSIZE, before)
        eventually(lambda: all(each.ready for each in world.stack.services if each.name == "kafka-1"))


@contextmanager
def _oversize(world: World) -> Iterator[None]:
    world.flow.send_oversize.set()
    yield


# the topic is not what it was


@contextmanager
def _partition_added(world: World) -> Iterator[None]:
    """Keys move to other partitions, so what was sent before must have arrived: Kafka keeps no order across them."""
    with world.flow.restarted():
        world.drain()
        count = len(world.admin.end_offsets(["numbered"])) + 1
        world.kafka.create_partitions([NewPartitions("numbered", count)])["numbered"].result(30)
        eventually(lambda: len(world.admin.end_offsets(["numbered"])) == count)
    yield


@contextmanager
def _topic_recreated(world: World, *, running: bool) -> Iterator[None]:
    """It gets more records than anybody had read of it before: old offsets would skip the first of them."""
    with world.flow.restarted():
        world.drain()
        partitions = len(world.admin.end_offsets(["numbered"]))
        read_so_far = sum(world.admin.end_offsets(["numbered"]).values())
        if not running:
            world.stop_app()
        world.kafka.delete_topics(["numbered"])["numbered"].result(30)
        eventually(lambda: "numbered" not in world.admin.names())
        topic = world.declared.graph.topics["numbered"]
        world.admin.ensure([topic])
        if partitions > topic.partitions:
            world.kafka.create_partitions([NewPartitions("numbered", partitions)])["numbered"].result(30)
            eventually(lambda: len(world.admin.end_offsets(["numbered"])) == partitions)
    with world.flow.paused():
        world.flow.send(min(read_so_far + 100, 3000))
        if not running:
            world.start_app()
        world.follow_advice()
        world.drain()
    yield


def _deleted(world: World, end: TopicPartition) -> bool:
    """Whether the records before an offset are deleted now; librdkafka gives up where a leader is not known yet."""
    try:
        world.kafka.delete_records([end])[end].result(30)
    except KafkaException:
        return False
    return True


@contextmanager
def _retention(world: World) -> Iterator[None]:
    """Records are deleted that nobody has read: they are gone, and everybody says so and goes on."""
    with world.flow.paused():
        world.drain()
        world.stop_app()
        before = world.admin.end_offsets(["numbered"])
        world.flow.send(200)
        after = world.admin.end_offsets(["numbered"])
        place = max(after, key=lambda each: after[each] - before[each])
        with Registry(world.connection) as registry:
            decode = Decoder(world.declared.graph.topics["numbered"], registry)
            lost: list[Any] = [
                decode(record.value)
                for record in read(world.connection, "numbered", start={place[1]: before[place]})
                if record.partition == place[1]
            ]
        world.gone.update((value.key, value.n) for value in lost)
        end = TopicPartition(*place, after[place])
        eventually(lambda: _deleted(world, end))
        world.flow.send(50)
        world.start_app()
        world.follow_advice()
        world.drain()
    yield


FAULTS = (
    Fault("a row is refused", "postgres", _row_refused),
    Fault("PostgreSQL refuses the login", "postgres", _login_refused),
    Fault("the table is dropped and comes back", "postgres", _table_dropped),
    Fault("the database's disk is full", "postgres", _disk_of_the_database_full),
    Fault("Cassandra is gone", "cassandra", _cassandra_gone),
    *(
        Fault(f"{which}: {how}", which, _receiver(which, how))
        for which in ("webhook", "sms")
        for how in receivers.HOW
    ),
    Fault("the mail server refuses the login", "smtp", _mail_login_refused),
    Fault("the mail server's answer is lost", "smtp", _mail_answer_lost),
    Fault("a consumer is killed", "app", _consumer_killed),
    Fault("the consumers stand still", "app", _consumers_frozen),
    Fault("the app is killed", "app", _app_killed),
    Fault("the app is stopped", "app", _app_stopped),
    Fault("a shift", "app", _shifted),
    Fault("the clock jumps", "clock", _clock_jumps),
    Fault("the broker is gone", "kafka", _broker_gone),
    Fault("the registry is gone", "registry", _registry_gone),
    Fault("the broker's disk is full", "kafka", _disk_of_the_broker_full),
    Fault("a result is too large", "topic", _oversize),
    Fault("a partition is added", "all", _partition_added, alone=True),
    Fault(
        "the topic is recreated while the app is stopped",
        "all",
        partial(_topic_recreated, running=False),
        alone=True,
    ),
    Fault(
        "the topic is recreated while the app runs",
        "all",
        partial(_topic_recreated, running=True),
        alone=True,
    ),
    Fault("retention", "all", _retention, alone=True),
)


def happen(world: World, faults: list[Fault], seconds: float) -> None:
    """Let faults happen at once for a time, and heal them."""
    world.log(" + ".join(fault.name for fault in faults) + f" for {seconds:.1f} s")
    with ExitStack() as under_way:
        for fault in faults:
            under_way.enter_context(fault.happen(world))
        if not faults[0].alone:
            time.sleep(seconds)  # a fault lasts as long as was drawn: nothing is waited for
