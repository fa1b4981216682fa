"""The faults of a consumer's life, each with what it lost (never any), delivered twice, and put out of order (never)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from gearshift import stack as local
from gearshift.topics import Admin, Producer, partition_of, read
from tests.faults.deliveries.bench import Bench, Member
from tests.faults.deliveries.ledger import Verdict
from tests.faults.deliveries.plan import Numbered
from tests.gateways import HttpGateway
from tests.support import eventually, librdkafka

FREEZE = 14.0  # longer than the local broker's session of 10 s
Scenario = Callable[[Callable[..., Bench]], Verdict]


def handler_crash(bench: Callable[..., Bench], **plan: Any) -> Verdict:
    """The handler's process ends in the middle of it, twice."""
    with bench(sleep=0.001, **plan) as b:
        b.send(2000)
        for at in (300, 900):
            assert b.start(die_in="handler", die_at=at, die_by="exit").await_end() == 3
        b.start()
        b.await_all()
        b.await_committed()
        return b.verdict()


def killed_after_write(bench: Callable[..., Bench], **plan: Any) -> Verdict:
    """`kill -9` when the handler has done its work and nothing of it is committed."""
    with bench(sleep=0.001, **plan) as b:
        b.send(2000)
        b.start(die_in="handler", die_at=500).await_end()
        b.start(die_in="commit", die_at=1).await_end()
        b.start()
        b.await_all()
        b.await_committed()
        return b.verdict()


def killed_in_handlers(bench: Callable[..., Bench], **plan: Any) -> Verdict:
    """`kill -9` when a handler has done its work, twice, and whatever the other lanes are doing."""
    with bench(**plan) as b:
        b.send(2000, keys=40)
        for at in (300, 700):
            b.start(die_in="handler", die_at=at).await_end()
        b.start()
        b.await_all()
        b.await_committed()
        return b.verdict()


def killed_at_commit(bench: Callable[..., Bench], **plan: Any) -> Verdict:
    """`kill -9` when everything is done but the commit."""
    with bench(**plan) as b:
        b.send(2000, again=True)
        b.start(die_in="commit", die_at=1).await_end()
        assert b.delivered
        b.start(die_in="commit", die_at=1).await_end()
        b.start()
        b.await_all()
        b.await_committed()
        return b.verdict()


def rebalances(bench: Callable[..., Bench], *, kills: bool = True, rate: float = 200, **plan: Any) -> Verdict:
    """Members join and leave every couple of seconds, some of them by `kill -9`, with records in flight."""
    with bench(partitions=4, sleep=0.003, in_flight=500, **plan) as b, b.watching_commits():
        with b.sending(rate=rate, keys=20):
            b.start(member="0")
            b.await_delivered(50)
            for number, way in enumerate(("leave", "kill", "leave", "leave", "kill")):
                member = b.start(member=str(number + 1))
                member.await_status(lambda status: status["delivered"] > 20)
                if way == "leave" or not kills:
                    member.leave()
                else:
                    member.kill()
        b.await_all()
        b.await_committed()
        return b.verdict()


def frozen(bench: Callable[..., Bench], **plan: Any) -> Verdict:
    """SIGSTOP past the session, then SIGCONT: what it had in hand was given to another."""
    with bench(sleep=0.005, in_flight=300, **plan) as b:
        with b.sending(rate=100):
            cold = b.start(member="0")
            cold.await_status(lambda status: status["delivered"] > 100)
            cold.freeze()
            since = time.monotonic()
            other = b.start(member="1")
            other.await_status(lambda status: status["delivered"] > 100)
            eventually(lambda: time.monotonic() - since > FREEZE)
            cold.thaw()
            cold.await_status(lambda status: status["partitions"] and status["delivered"] > 200)
        b.await_all()
        b.await_committed()
        return b.verdict()


def frozen_in_handler(bench: Callable[..., Bench], *, takes: float, **plan: Any) -> Verdict:
    """SIGSTOP while the handler runs: its result, which another has delivered meanwhile, is not written any more."""
    with HttpGateway() as gateway, bench(to=gateway.url, **plan) as b:
        cold = b.start(member="0", sleep_once=takes)
        cold.await_status(lambda status: len(_own(b, status)) == 2)
        b.send(200)
        cold.await_status(lambda status: status["in_flight"] > 0)
        cold.freeze()
        since = time.monotonic()
        b.start(member="1")
        b.await_all()
        eventually(lambda: time.monotonic() - since > FREEZE)
        cold.thaw()
        cold.await_status(lambda status: len(_own(b, status)) == 1)
        b.send(200)
        eventually(lambda: len(set(_accepted(gateway))) == b.sent.total())
        b.await_committed()
        return b.verdict(_accepted(gateway))


def destination_down(bench: Callable[..., Bench], *, seconds: float = 30.0, **plan: Any) -> Verdict:
    """What the records are sent to does not answer for half a minute."""
    with HttpGateway() as gateway, bench(to=gateway.url, parallelism=4, **plan) as b:
        member = b.start()
        with b.sending(rate=50):
            eventually(lambda: len(gateway.accepted) > 50)
            gateway.down()
            since = time.monotonic()
            eventually(lambda: time.monotonic() - since > seconds, within=seconds + 30)
            assert member.alive, member.log
            gateway.up()
        arrived = partial(_accepted, gateway)
        eventually(lambda: len(set(arrived())) == b.sent.total())
        b.await_committed()
        assert member.status["retries"] > 0
        return b.verdict(arrived())


def _accepted(gateway: HttpGateway) -> list[tuple[str, int]]:
    return [(request.json["key"], request.json["n"]) for request in gateway.accepted]


def slow_destination(bench: Callable[..., Bench], **plan: Any) -> Verdict:
    """One write takes longer than `max.poll.interval.ms`: the group is not lost, and nothing comes twice."""
    with bench(max_poll_interval=6.0, sleep_once=13.0, in_flight=100, **plan) as b:
        b.send(500)
        member = b.start()
        b.await_all()
        b.await_committed()
        assert "lost" not in member.log, member.log
        return b.verdict()


def failing_commits(bench: Callable[..., Bench], **plan: Any) -> Verdict:
    """No commit is taken for some seconds, and the process dies before one is."""
    with bench(sleep=0.001, **plan) as b, b.watching_commits():
        b.send(3000)
        member = b.start(failing_commits=8.0)
        member.await_status(lambda status: status["failed_commits"] >= 2)
        member.kill()
        second = b.start(failing_commits=5.0)
        second.await_status(lambda status: status["failed_commits"] >= 1)
        b.await_all()
        b.await_committed()
        return b.verdict()


def poison(bench: Callable[..., Bench], **plan: Any) -> Verdict:
    """One record in ten is poison, half of them for the decoder and half for the handler."""
    with bench(poison=20, **plan) as b:
        b.send(1000, keys=10)  # of which the handler refuses 1 in 20
        garbage = [b"garbage %d" % number for number in range(50)]
        with Producer(b.connection) as producer:
            for each in garbage:
                producer.send_bytes(b.name, each, key=b"k1", headers={"trace": b"1"})
        b.start()
        b.await_committed()
        letters = list(read(b.connection, f"{b.name}.dlq"))
        _check_letters(b, letters, garbage)
        refused = [(key, n) for key, count in b.sent.items() for n in range(19, count, 20)]
        assert not set(refused) & set(b.delivered)
        return b.verdict(_as_if_delivered(b, refused))


def _as_if_delivered(b: Bench, refused: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """What was delivered, with what was set aside in its place."""
    return sorted([*b.delivered, *refused], key=lambda each: each[1])


def _check_letters(b: Bench, letters: list[Any], garbage: list[bytes]) -> None:
    undecodable = [each for each in letters if each.header("__connect.errors.stage") == b"VALUE_CONVERTER"]
    raised = [each for each in letters if each.header("__connect.errors.stage") == b"TASK_PUT"]
    assert sorted(each.value for each in undecodable) == sorted(garbage)
    assert all(each.key == b"k1" and each.header("trace") == b"1" for each in undecodable)
    assert len(raised) == 50
    assert len(letters) == 100
    originals = {(record.partition, record.offset): record for record in read(b.connection, b.name)}
    for letter in letters:
        place = (
            int(letter.header("__connect.errors.partition")),
            int(letter.header("__connect.errors.offset")),
        )
        assert letter.header("__connect.errors.topic") == b.name.encode()
        assert (letter.key, letter.value) == (originals[place].key, originals[place].value)
    assert {each.header("__connect.errors.exception.class.name") for each in raised} == {
        b"builtins.ValueError"
    }
    assert all(b" is poison" in each.header("__connect.errors.exception.message") for each in raised)


def large_records(bench: Callable[..., Bench], **plan: Any) -> Verdict:
    """Records of 2 MB among small ones, delivered and set aside."""
    with bench(poison=5, **plan) as b:
        b.send(20, keys=2)
        b.send(4, keys=2, padding=2_000_000)
        b.send(20, keys=2)
        b.start()
        b.await_committed()
        refused = [(key, n) for key, count in b.sent.items() for n in range(4, count, 5)]
        letters = list(read(b.connection, f"{b.name}.dlq"))
        assert len(letters) == len(refused)
        assert max(len(letter.value or b"") for letter in letters) < 3_000_000
        return b.verdict(_as_if_delivered(b, refused))


def paused(bench: Callable[..., Bench], *, parallelism: int = 1, **plan: Any) -> Verdict:
    """A consumer that is full has paused; then another joins and takes a part, and then leaves again."""
    plan |= {"parallelism": parallelism, "partitions": 4, "sleep": 0.02, "in_flight": 60}
    with bench(**plan) as b:
        b.send(400, keys=20)
        # Each handles at most 50 a second per lane, and partitions 2 and 3 have 6 of the 20 keys: whichever partitions
        # the second consumer gets, it is sent more than it can do.
        with b.sending(rate=200 * parallelism, keys=20):
            first = b.start(member="0")
            first.await_status(lambda status: status["paused"])
            second = b.start(member="1")
            second.await_status(lambda status: status["paused"] and status["delivered"] > 50)
            first.await_status(lambda status: len(_own(b, status)) < 4)
        second.leave()
        first.await_status(lambda status: len(_own(b, status)) == 4)
        b.await_all()
        b.await_committed()
        return b.verdict()


def _own(b: Bench, status: dict[str, Any]) -> list[str]:
    return [place for place in status["partitions"] if place.startswith(f"{b.name}/")]


def topic_deleted(bench: Callable[..., Bench], **plan: Any) -> Verdict:
    """The topic goes and comes again, with other records."""
    with bench(**plan) as b:
        member = b.start()
        member.await_status(lambda status: len(_own(b, status)) == 2)
        b.send(500)
        b.await_all()
        b.await_committed()
        with Admin(b.connection) as admin:
            admin.delete([b.name])
            member.await_status(lambda status: b.name in (status["error"] or ""))
            admin.ensure([b.declared.topic])
        b.send(500)
        b.await_all()
        b.await_committed()
        member.await_status(lambda status: status["error"] is None)
        return b.verdict()


def partitions_added(bench: Callable[..., Bench], **plan: Any) -> Verdict:
    """A topic gets more partitions while it is read; what is written there at once is read from the first on."""
    with bench(**plan) as b:
        member = b.start()
        member.await_status(lambda status: len(_own(b, status)) == 2)
        if b.plan.start == "earliest":
            b.send(100)
        admin = AdminClient(librdkafka(b.connection))
        admin.create_partitions([NewPartitions(b.name, 4)])[b.name].result(30)
        keys = [f"new{n}" for n in range(40) if partition_of(f"new{n}".encode(), 4) > 1][:10]
        with Producer(b.connection) as producer:
            for number in range(200):
                key = keys[number % len(keys)]
                producer.send(b.declared.topic, Numbered(key, b.sent[key]))
                b.sent[key] += 1
        b.await_all()
        member.await_status(lambda status: len(_own(b, status)) == 4)
        return b.verdict()


def retention(bench: Callable[..., Bench], **plan: Any) -> Verdict:
    """Retention takes records that a stopped group had not read: it goes on at the oldest, and counts."""
    with bench(partitions=1, **plan) as b:
        b.send(100, keys=1)
        first = b.start()
        b.await_all()
        b.await_committed()
        first.leave()
        b.send(400, keys=1)
        admin = AdminClient(librdkafka(b.connection))
        place = TopicPartition(b.name, 0, 300)
        admin.delete_records([place])[place].result(30)
        strict = b.start(start="error")
        assert strict.await_end() == 1
        assert "partition 0, offset 100" in strict.log, strict.log
        member = b.start()
        b.await_delivered(300)
        b.await_committed()
        assert member.await_status(lambda status: status["skipped"] > 0)["skipped"] == 200
        gone = [("k0", n) for n in range(100, 300)]
        return b.verdict(sorted([*b.delivered, *gone], key=lambda each: each[1]))


def transactions_killed(bench: Callable[..., Bench], **plan: Any) -> Verdict:
    """Topic to topic, killed in the handler and at the commit of a transaction."""
    with bench(to="topic", **plan) as b:
        b.send(3000)
        b.start(die_in="handler", die_at=1300).await_end()
        b.start(die_in="transaction", die_at=2).await_end()
        b.start()
        b.await_all()
        b.await_committed()
        return b.verdict(b.copies())


def transactions_rebalanced(bench: Callable[..., Bench], **plan: Any) -> Verdict:
    """Topic to topic while members join and leave."""
    with bench(partitions=4, to="topic", sleep=0.002, in_flight=500, **plan) as b:
        with b.sending(rate=200, keys=20):
            b.start(member="0")
            b.await_delivered(50)
            for number in range(3):
                member = b.start(member=str(number + 1))
                member.await_status(lambda status: status["delivered"] > 20)
                member.leave()
        b.await_all()
        b.await_committed()
        return b.verdict(b.copies())


def transactions_frozen(bench: Callable[..., Bench], **plan: Any) -> Verdict:
    """Topic to topic, with one member frozen past its session in the middle of a transaction."""
    with bench(to="topic", sleep=0.005, in_flight=300, **plan) as b:
        with b.sending(rate=100):
            cold = b.start(member="0")
            cold.await_status(lambda status: status["delivered"] > 100)
            cold.freeze()
            since = time.monotonic()
            other = b.start(member="1")
            other.await_status(lambda status: status["delivered"] > 100)
            eventually(lambda: time.monotonic() - since > FREEZE)
            cold.thaw()
            if not cold.goes_on(lambda status: status["partitions"] and status["delivered"] > 200):
                _start_again(b, cold)  # it happened to be frozen in its commit
        b.await_all()
        b.await_committed()
        return b.verdict(b.copies())


def transactions_frozen_in_commit(bench: Callable[..., Bench], **plan: Any) -> Verdict:
    """Topic to topic, with one member frozen when it has sent its offsets and not yet committed them.

    Nobody knows the offsets of a partition in it until the brokers end the transaction, after a minute; another
    partition is read at once by whom it is given to.
    """
    with bench(to="topic", sleep=0.005, in_flight=300, **plan) as b:
        with b.sending(rate=30):
            cold = b.start(member="0", die_in="transaction", die_at=3, die_by="stop")
            eventually(lambda: cold.frozen)
            other = b.start(member="1")
            eventually(lambda: {line.partition for line in b.lines if line.process == other.pid} == {0, 1})
            cold.thaw()
            cold.await_end()
            _start_again(b, cold)
        b.await_all()
        b.await_committed()
        return b.verdict(b.copies())


def _start_again(b: Bench, fenced: Member) -> None:
    """Do what a consumer group does for a member whose transaction the brokers ended, which is the end of it as well."""
    assert "was fenced" in fenced.log or "no answer to a commit" in fenced.log
    b.start(member="0").await_status(lambda status: status["delivered"] > 50)


# Each fault, with whether a record may come twice.
AT_LEAST_ONCE: dict[str, Scenario] = {
    "handler crash": handler_crash,
    "handler crash, async": partial(handler_crash, commit="async", parallelism=8),
    "kill -9 between write and commit": killed_after_write,
    "kill -9 between write and commit, async": partial(killed_after_write, commit="async", parallelism=8),
    "rebalances": rebalances,
    "rebalances, side by side": partial(rebalances, parallelism=8),
    "rebalances, async": partial(rebalances, commit="async", parallelism=8),
    "frozen past the session": frozen,
    "frozen past the session, side by side": partial(frozen, parallelism=4),
    "frozen past the session, async": partial(frozen, commit="async", parallelism=4),
    "destination down for 30 s": destination_down,
    "async commits failing": partial(failing_commits, commit="async", parallelism=4),
    "sync commits failing": failing_commits,
    "pause, rebalance, resume, async": partial(paused, commit="async", parallelism=4),
}
# With `once_by` a kill repeats at most what was between the end of the handler and its mark: one for each lane.
ONCE_A_LANE: dict[str, tuple[Scenario, int]] = {
    "once_by: kill -9 in the handler": (partial(killed_in_handlers, once=True), 2),
    "once_by: kill -9 beside handlers at work": (
        partial(killed_in_handlers, once=True, parallelism=8),
        2 * 8,
    ),
    "once_by: kill -9 beside handlers at work, async": (
        partial(killed_in_handlers, once=True, commit="async", parallelism=8),
        2 * 8,
    ),
    "once_by: kill -9 at the commit beside handlers at work": (
        partial(killed_at_commit, once=True, parallelism=8),
        2 * 8,
    ),
    "once_by: kill -9 at the commit, async": (
        partial(killed_at_commit, once=True, commit="async", parallelism=8),
        2 * 8,
    ),
}
EXACTLY_ONCE: dict[str, Scenario] = {
    "transactions: frozen in the commit": transactions_frozen_in_commit,
    "destination slower than the poll interval": slow_destination,
    "destination slower than the poll interval, async": partial(
        slow_destination, commit="async", parallelism=4
    ),
    "frozen in the handler": partial(frozen_in_handler, takes=5.0),
    "frozen in the handler, which goes on long after": partial(frozen_in_handler, takes=25.0),
    "poison": poison,
    "poison, in lists": partial(poison, batch_size=100),
    "2 MB records": large_records,
    "pause, rebalance, resume": paused,
    "topic deleted": topic_deleted,
    "topic deleted, async, latest": partial(topic_deleted, commit="async", start="latest"),
    "partitions added": partial(partitions_added, start="earliest"),
    "partitions added, latest": partial(partitions_added, start="latest"),
    "retention": retention,
    "once_by: kill -9 at the commit, and sent twice": partial(killed_at_commit, once=True),
    "once_by: sent twice, in lists": partial(killed_at_commit, once=True, batch_size=50),
    # One lane waits for the mark of each record, which on a busy machine takes longer than its handler.
    "once_by: rebalances": partial(rebalances, once=True, kills=False, rate=50),
    "once_by: rebalances, async": partial(rebalances, once=True, kills=False, commit="async", parallelism=8),
    "transactions: kill -9": transactions_killed,
    "transactions: kill -9, side by side": partial(transactions_killed, parallelism=8),
    "transactions: rebalances": transactions_rebalanced,
    "transactions: frozen": transactions_frozen,
}


@pytest.fixture(scope="module")
def verdicts(
    stack: local.Stack, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[dict[str, Future[Verdict]]]:
    """All faults that were asked for, some at a time, on one broker; most of their time is waiting."""
    folder = tmp_path_factory.mktemp("ledgers")
    wanted = {
        item.callspec.params["fault"]
        for item in request.session.items
        if item.parent is request.node and isinstance(item, pytest.Function)
        if hasattr(item, "callspec")
    }
    once = {name: run for name, (run, _) in ONCE_A_LANE.items()}
    everything = {**AT_LEAST_ONCE, **once, **EXACTLY_ONCE}
    faults = {name: run for name, run in everything.items() if name in wanted}
    with ThreadPoolExecutor(8) as pool:
        running: dict[str, Future[Verdict]] = {}
        for number, (name, run) in enumerate(faults.items()):
            unique = f"f{number}-{time.time_ns() % 10**9}"
            running[name] = pool.submit(run, partial(Bench, stack.connection, folder, unique))
        try:
            yield running
        finally:
            for each in running.values():
                each.cancel()


@pytest.mark.parametrize("fault", AT_LEAST_ONCE)
def test_nothing_is_lost_or_out_of_order(fault: str, verdicts: dict[str, Future[Verdict]]) -> None:
    verdict = verdicts[fault].result()
    print(f"{fault}: {verdict}")
    assert (verdict.lost, verdict.out_of_order) == (0, 0)


@pytest.mark.parametrize("fault", EXACTLY_ONCE)
def test_nothing_is_lost_duplicated_or_out_of_order(fault: str, verdicts: dict[str, Future[Verdict]]) -> None:
    verdict = verdicts[fault].result()
    print(f"{fault}: {verdict}")
    assert verdict == Verdict(0, 0, 0)


@pytest.mark.parametrize("fault", ONCE_A_LANE)
def test_a_kill_repeats_at_most_the_record_that_each_lane_has_in_hand(
    fault: str, verdicts: dict[str, Future[Verdict]]
) -> None:
    verdict = verdicts[fault].result()
    print(f"{fault}: {verdict}")
    assert (verdict.lost, verdict.out_of_order) == (0, 0)
    assert verdict.duplicated <= ONCE_A_LANE[fault][1]


def test_the_ledger_catches_a_loop_that_commits_before_it_processes(
    stack: local.Stack, tmp_path: Path, unique: str
) -> None:
    with Bench(stack.connection, tmp_path, unique, sleep=0.001) as b:
        b.send(2000)
        b.start(commits_first=True, die_in="handler", die_at=300).await_end()
        b.start(commits_first=True)
        b.await_committed()
        b.await_delivered(1)
        verdict = b.verdict()
    print(f"commits before it processes, killed: {verdict}")
    assert verdict.lost > 0
