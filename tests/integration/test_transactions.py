"""Records and offsets that are seen together or not at all."""

from __future__ import annotations

import signal
from datetime import timedelta
from random import Random

import pytest
from confluent_kafka import Consumer

from gearshift import stack as local
from gearshift.connection import Connection
from gearshift.definitions import Location, Topic
from gearshift.errors import (
    BrokerUnreachableError,
    FencedError,
    NotAMemberError,
    ProduceError,
    RetriableError,
)
from gearshift.topics import (
    Admin,
    LatestMarks,
    MarkedTransactions,
    Producer,
    TransactionalProducer,
    partition_of,
    read,
)
from tests.support import eventually, librdkafka

HERE = Location(__file__, 1)


@pytest.fixture
def topic(connection: Connection, unique: str) -> str:
    with Admin(connection) as admin:
        admin.ensure([Topic(name=unique, value=str, partitions=3, defined_at=HERE)], dead_letters=False)
    return unique


def seen(connection: Connection, topic: str) -> list[bytes | None]:
    Admin(connection).await_stable([topic])
    return sorted((record.value for record in read(connection, topic)), key=str)


def test_what_is_committed_is_seen_and_what_is_aborted_is_not(connection: Connection, topic: str) -> None:
    with TransactionalProducer(connection, topic) as producer:
        for value, keep in ((b"1", True), (b"2", False), (b"3", True)):
            producer.begin()
            producer.send_bytes(topic, value, key=b"k", headers={"h": b"v"})
            producer.commit() if keep else producer.abort()
        producer.begin()
        producer.send_bytes(topic, b"4")
    assert seen(connection, topic) == [b"1", b"3"]
    first = next(iter(read(connection, topic)))
    assert first.headers == (("h", b"v"),)
    assert first.partition == partition_of(b"k", 3)


def test_a_newer_producer_of_the_same_name_fences_the_older(connection: Connection, topic: str) -> None:
    older = TransactionalProducer(connection, topic)
    older.begin()
    older.send_bytes(topic, b"stale")
    with TransactionalProducer(connection, topic) as newer:
        newer.begin()
        newer.send_bytes(topic, b"fresh")
        newer.commit()
        with pytest.raises(FencedError, match=f"producer {topic} was fenced"):
            older.commit()
        with pytest.raises(FencedError):
            older.begin()
    older.close()
    assert seen(connection, topic) == [b"fresh"]


def test_a_commit_that_nobody_answers_is_the_end_of_its_producer_and_no_other(
    stack: local.Stack, connection: Connection, topic: str
) -> None:
    older = TransactionalProducer(connection, topic, within=timedelta(seconds=2))
    older.begin()
    older.send_bytes(topic, b"1")
    with Admin(connection) as admin:
        eventually(lambda: sum(admin.end_offsets([topic]).values()))
    brokers = [service.pid for service in stack.services if service.name.startswith("kafka")]
    assert brokers
    for pid in brokers:
        pid.send(signal.SIGSTOP)
    try:
        with pytest.raises(BrokerUnreachableError, match=f"no answer to a commit of producer {topic} in 2 s"):
            older.commit()
    finally:
        for pid in brokers:
            pid.send(signal.SIGCONT)
    older.close()
    with TransactionalProducer(connection, topic) as newer:
        newer.begin()
        newer.send_bytes(topic, b"2")
        newer.commit()
    assert set(seen(connection, topic)) - {b"1"} == {b"2"}


def test_offsets_are_committed_with_the_records_or_not_at_all(
    connection: Connection, topic: str, unique: str
) -> None:
    with Producer(connection) as sender:
        sender.send_bytes(topic, b"in", key=b"k")
    consumer = Consumer(
        {
            **librdkafka(connection),
            "group.id": unique,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    record = eventually(lambda: consumer.poll(0.1))
    place = (topic, record.partition())
    with Admin(connection) as admin, TransactionalProducer(connection, unique) as producer:
        for keep in (False, True):
            producer.begin()
            producer.send_bytes(topic, b"out")
            producer.send_offsets({place: record.offset() + 1}, consumer.consumer_group_metadata())
            producer.commit() if keep else producer.abort()
            assert admin.group_offsets(unique, [topic]) == ({place: 1} if keep else {})
        stale = consumer.consumer_group_metadata()
        consumer.close()
        # A consumer that has left the group cannot commit, and what it wrote is not seen.
        producer.begin()
        producer.send_bytes(topic, b"stale")
        with pytest.raises(NotAMemberError, match="the group rejected the offsets"):
            producer.send_offsets({place: 99}, stale)
        assert not producer.is_open
        producer.begin()
        producer.send_bytes(topic, b"later")
        producer.commit()
        assert admin.group_offsets(unique, [topic]) == {place: 1}
    assert seen(connection, topic) == [b"in", b"later", b"out"]


def test_a_record_that_is_refused_aborts_the_transaction_and_the_next_one_goes_through(
    connection: Connection, topic: str
) -> None:
    with TransactionalProducer(connection, topic) as producer:
        producer.begin()
        producer.send_bytes(topic, b"beside it")
        producer.send_bytes(topic, Random(7).randbytes(12 << 20))  # larger than the topic takes
        with pytest.raises(ProduceError, match="a record cannot be delivered") as raised:
            producer.commit()
        assert raised.value.topic == topic and not raised.value.retriable
        assert not producer.is_open
        # The refused record may have left a gap in the sequence numbers, which the brokers see only now; the
        # producer then begins a new sequence, and says to send the same again.
        eventually(lambda: went_through(producer, topic, b"after it"))
    assert seen(connection, topic) == [b"after it"]


def went_through(producer: TransactionalProducer, topic: str, value: bytes) -> bool:
    producer.begin()
    producer.send_bytes(topic, value)
    try:
        producer.commit()
    except RetriableError:
        return False
    return True


def test_marks_are_read_once_however_often_the_transactions_are_opened(
    connection: Connection, unique: str
) -> None:
    class Counted(LatestMarks):
        learned = 0

        def learn(self, name: bytes, value: bytes, at: float) -> None:
            self.learned += 1
            super().learn(name, value, at)

    name, ours = f"{unique}.requests", Counted()
    first = MarkedTransactions(connection, name, ours)
    for number in range(3):
        first.begin()
        first.note(b"a", b"%d" % number)
        first.commit()
    first.begin()
    first.note(b"a", b"taken back")
    first.abort()
    # As after a failure: what this process noted itself it knows, and what another one did meanwhile it reads.
    MarkedTransactions(connection, name, ours).close()
    assert (ours, ours.learned) == ({b"a": b"2"}, 3)
    other = MarkedTransactions(connection, name, LatestMarks())
    other.begin()
    other.note(b"b", b"theirs")
    other.commit()
    other.close()
    MarkedTransactions(connection, name, ours).close()
    assert (ours, ours.learned) == ({b"a": b"2", b"b": b"theirs"}, 4)
    first.close()
