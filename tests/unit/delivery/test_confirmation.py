"""Polled records wait until their topic is confirmed, tested with a fake clock and fake brokers."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.delivery.assignment import Assignment, Piece
from gearshift.delivery.confirmation import TopicConfirmation
from gearshift.delivery.in_flight import InFlight
from gearshift.errors import BrokerUnreachableError


class Brokers:
    """Knows the current id of every topic; answers on `answer`."""

    def __init__(self) -> None:
        self.id: str | None = "old"
        self.down = False
        self.asked: list[dict[str, Future[Any]]] = []

    def ask(self, topics: set[str], _within: object) -> dict[str, Future[Any]]:
        if self.down:
            raise BrokerUnreachableError("no broker answers")
        self.asked.append({topic: Future() for topic in topics})
        return self.asked[-1]

    def answer(self) -> None:
        """Answer the last question with the current ids."""
        for future in self.asked.pop().values():
            future.set_result(self.id)

    def of(self, answers: dict[str, Future[Any]]) -> dict[str, Any]:
        return {topic: answer.result() for topic, answer in answers.items() if answer.result() is not None}


class Consumer:
    """A consumer with one partition."""

    def __init__(self, topic_id: str | None = "old") -> None:
        self.now = 100.0
        self.brokers = Brokers()
        self.assignment = Assignment()
        self.assignment.add(("t", 0), 0, None, topic_id)
        self.in_flight = InFlight(1000, 1000)
        asks: Any = self.brokers
        self.confirmation = TopicConfirmation(
            asks, assignment=self.assignment, in_flight=self.in_flight, clock=lambda: self.now
        )

    def poll(self, *messages: bytes) -> None:
        tracker = self.assignment.get(("t", 0))
        assert tracker is not None
        self.confirmation.hold([Piece(tracker, list(messages))])

    def turn(self) -> list[bytes]:
        """The records that one turn of the poll loop releases."""
        self.confirmation.receive()
        found = [message for piece in self.confirmation.confirmed() for message in piece.messages]
        self.confirmation.ask()
        return found


def test_a_record_waits_for_the_answer_to_a_question_asked_after_it_was_polled() -> None:
    consumer = Consumer()
    consumer.poll(b"first")
    assert consumer.turn() == []
    assert consumer.in_flight.records == 1
    consumer.now += 20
    consumer.brokers.answer()
    assert consumer.turn() == [b"first"]
    consumer.poll(b"much later")
    assert consumer.turn() == []


def test_one_answer_covers_records_polled_right_after_its_question() -> None:
    consumer = Consumer()
    consumer.poll(b"first")
    consumer.turn()
    consumer.brokers.answer()
    consumer.now += 0.03
    consumer.poll(b"second")
    assert consumer.turn() == [b"first", b"second"]
    assert consumer.brokers.asked == []


def test_a_record_of_a_recreated_topic_is_never_released() -> None:
    consumer = Consumer()
    consumer.poll(b"of the new one")
    consumer.turn()
    consumer.brokers.id = "new"
    consumer.brokers.answer()
    assert consumer.turn() == []
    assert consumer.confirmation.recreated == "t"
    consumer.confirmation.drop()
    assert (consumer.in_flight.records, consumer.in_flight.bytes) == (0, 0)
    assert consumer.confirmation.recreated is None


def test_an_answer_does_not_apply_to_a_partition_assigned_after_its_question() -> None:
    consumer = Consumer()
    consumer.poll(b"old")
    consumer.turn()
    consumer.brokers.answer()
    consumer.assignment.add(("t", 0), 0, None, "new")  # assigned again before the answer was processed
    consumer.turn()
    assert consumer.confirmation.recreated is None


def test_while_a_topic_is_deleted_its_records_wait_and_the_brokers_are_asked_occasionally() -> None:
    consumer = Consumer()
    consumer.poll(b"last")
    consumer.brokers.id = None
    questions = 0
    for _ in range(1000):
        assert consumer.turn() == []
        if consumer.brokers.asked:
            questions += 1
            consumer.brokers.answer()
        consumer.now += 0.001
    assert questions <= 3
    assert consumer.confirmation.recreated is None


def test_missing_answers_are_measured_while_something_waits() -> None:
    consumer = Consumer()
    consumer.brokers.down = True
    consumer.poll(b"waits")
    for _ in range(100):
        assert consumer.turn() == []
        consumer.now += 1
    assert consumer.confirmation.unanswered > 90
    consumer.confirmation.drop()
    consumer.turn()
    assert consumer.confirmation.unanswered == 0


@pytest.mark.parametrize("seconds", [0.001, 0.2])
def test_a_commit_waits_for_an_answer_however_slow_the_brokers_are(seconds: float) -> None:
    consumer = Consumer()
    assert not consumer.confirmation.allows(wanted=True)
    consumer.turn()
    consumer.now += seconds
    consumer.brokers.answer()
    consumer.turn()
    assert consumer.confirmation.allows(wanted=True)
    consumer.now += 1
    assert not consumer.confirmation.allows(wanted=True)  # another commit needs another answer


def test_without_topic_ids_nothing_waits() -> None:
    consumer = Consumer(topic_id=None)
    consumer.poll(b"first")
    assert consumer.turn() == [b"first"]
    assert consumer.confirmation.allows(wanted=True)
    assert consumer.brokers.asked == []


@given(st.lists(st.sampled_from(["poll", "turn", "answer", "5 ms", "40 ms", "1 s", "recreate"]), max_size=60))
def test_nothing_of_a_new_topic_passes_for_the_old_one(steps: list[str]) -> None:
    """As long as none of its records arrives within 50 ms after the old topic still existed."""
    consumer = Consumer()
    recreated_at: float | None = None
    for step in [*steps, "turn", "answer", "turn"]:
        if step == "poll" and (recreated_at is None or consumer.now >= recreated_at + 0.05):
            consumer.poll(b"old" if recreated_at is None else b"new")
        elif step == "turn":
            assert b"new" not in consumer.turn()
        elif step == "answer" and consumer.brokers.asked:
            consumer.brokers.answer()
        elif step == "recreate" and recreated_at is None:
            consumer.brokers.id, recreated_at = "new", consumer.now
        elif step.endswith("s") and step[0].isdigit():
            consumer.now += {"5 ms": 0.005, "40 ms": 0.04, "1 s": 1.0}[step]
