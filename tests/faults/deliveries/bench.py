"""A topic with numbered records, the processes that deliver them, and the ledger."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from gearshift.connection import Connection
from gearshift.errors import BrokerUnreachableError
from gearshift.schemas import Decoder, Registry
from gearshift.topics import Admin, GroupOffsets, Producer
from tests.faults.deliveries import consumer
from tests.faults.deliveries.ledger import Line, Verdict, Written, judge
from tests.faults.deliveries.plan import Declared, Fault, Numbered, Plan, declare
from tests.flow import committed
from tests.support import eventually

COMMITS = ("sync", "async")
T = TypeVar("T")
R = TypeVar("R")
_WITHIN = 240.0
# Each consumer is a process of its own, forked from one that has imported all of it: that is most of its start.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([consumer.__name__, "confluent_kafka.schema_registry"])
_FORKING = threading.Lock()  # two threads that ask at once how a process ended get one answer and one guess


def at_once(run: Callable[[T], R], cases: Iterable[T]) -> list[R]:
    """What comes of each case, all of them side by side: they mostly wait."""
    wanted = list(cases)
    with ThreadPoolExecutor(len(wanted)) as pool:
        return list(pool.map(run, wanted))


class Member:
    """A consumer process."""

    def __init__(self, plan: Plan, folder: Path, number: int) -> None:
        self.plan = plan
        self._said = folder / f"{plan.name}-{number}.out"
        self._log = folder / f"{plan.name}-{number}.log"
        self._said.touch()
        self._log.touch()
        self._process = _FORKS.Process(
            target=consumer.run, args=(plan.to_json(), str(self._said), str(self._log)), daemon=True
        )
        with _FORKING:
            self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-12000:]

    @property
    def alive(self) -> bool:
        return self._ended is None

    @property
    def _ended(self) -> int | None:
        with _FORKING:
            return self._process.exitcode

    @property
    def status(self) -> dict[str, Any]:
        """What it last told of itself; nothing at the beginning."""
        told = self._said.read_bytes().rpartition(b"\n")[0].rpartition(b"\n")[2]
        return json.loads(told) if told else {}

    def await_status(
        self, check: Callable[[dict[str, Any]], object], within: float = _WITHIN
    ) -> dict[str, Any]:
        """The first status that fits."""

        def found() -> dict[str, Any] | None:
            assert self.alive, f"it ended:\n{self.log}"
            status = self.status
            return status if status and check(status) else None

        try:
            return eventually(found, within=within)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.status}\n{self.log}") from None

    def goes_on(self, check: Callable[[dict[str, Any]], object]) -> bool:
        """Wait until its status fits; False if it ended before."""
        eventually(lambda: not self.alive or (self.status and check(self.status)))
        return self.alive

    @property
    def resident(self) -> int:
        """The memory it holds, in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8")
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) * 1024

    def kill(self) -> None:
        """`kill -9`."""
        os.kill(self.pid, signal.SIGKILL)
        self.await_end()

    @property
    def frozen(self) -> bool:
        """Whether it stands still."""
        return Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def leave(self, within: float = _WITHIN) -> None:
        """Ask it to end, and wait until it did, in order."""
        os.kill(self.pid, signal.SIGTERM)
        code = self.await_end(within)
        assert code == 0, f"it ended with {code}:\n{self.log}"

    def await_end(self, within: float = _WITHIN) -> int:
        """Its exit code, when it has ended by itself."""
        try:
            eventually(lambda: not self.alive, within=within)
        except AssertionError:
            raise AssertionError(f"it lives on: {self.status}\n{self.log}") from None
        code = self._ended
        assert code is not None
        return code


class Bench:
    """One topic, one group."""

    def __init__(self, connection: Connection, folder: Path, name: str, **plan: Any) -> None:
        self.connection = connection
        self.name = name
        self.folder = folder
        self.plan = Plan(
            name=name,
            file=str(folder / f"{name}.csv"),
            connection={key: _plain(value) for key, value in asdict(connection).items()},
            **plan,
        )
        self.sent: Counter[str] = Counter()
        self._written = Written(Path(self.plan.file))
        self.members: list[Member] = []
        self.declared: Declared = declare(replace(self.plan, to=None), Fault(self.plan))
        topics = [self.declared.topic] + ([self.declared.copies] if self.plan.to == "topic" else [])
        with Admin(connection) as admin:
            admin.ensure(topics)
        with Registry(connection) as registry:
            for topic in topics:
                registry.register(topic)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            if member.alive:
                member.thaw()
                if error is not None:
                    said = len(member.log)
                    os.kill(member.pid, signal.SIGUSR1)  # its log then shows where every thread is
                    with suppress(AssertionError):
                        eventually(lambda member=member, said=said: len(member.log) > said, within=2)
                member.kill()
        if error is not None:
            logs = "\n".join(f"--- {member.pid} {member.status}\n{member.log}" for member in self.members)
            error.add_note(f"{self.name}: {self.verdict()}\n{logs}")

    # records

    def send(self, count: int, *, keys: int = 10, padding: int = 0, again: bool = False) -> None:
        """Send so many records, over these keys in turn; with `again` each of them twice."""
        with Producer(self.connection, largest=8_000_000) as producer:
            for number in range(count):
                key = f"k{number % keys}"
                for _ in range(1 + again):
                    producer.send(self.declared.topic, Numbered(key, self.sent[key], "x" * padding))
                self.sent[key] += 1

    def sending(self, rate: float, keys: int = 10, hot: float = 0.0) -> Sending:
        """A steady flow while the block lasts, with this share of it on one more key, `hot`."""
        return Sending(self, rate, keys, hot)

    def recreate(self, count: int) -> None:
        """Delete the topic and create it again with so many records, while no consumer can see it in between."""
        for member in self.members:
            member.freeze()
        with Admin(self.connection) as admin:
            admin.delete([self.name])
            admin.ensure([self.declared.topic])
        self.send(count)
        for member in self.members:
            member.thaw()

    # members

    def start(self, **changed: Any) -> Member:
        """Start a consumer, with changes to the plan that are its own."""
        member = Member(replace(self.plan, **changed), self.folder, len(self.members))
        self.members.append(member)
        return member

    # what came of it

    @property
    def lines(self) -> list[Line]:
        return self._written.lines()

    @property
    def delivered(self) -> list[tuple[str, int]]:
        return [(line.key, line.n) for line in self.lines]

    def verdict(self, delivered: Iterable[tuple[str, int]] | None = None) -> Verdict:
        """The counts, of what the handlers did if nothing else is given."""
        return judge(self.sent, self.delivered if delivered is None else delivered)

    def await_delivered(self, count: int, within: float = _WITHIN) -> None:
        """Wait until so many different records were delivered."""
        eventually(lambda: self._written.count() >= count, within=within)

    def await_all(self, within: float = _WITHIN) -> None:
        """Wait until everything that was sent was delivered."""
        try:
            eventually(lambda: self._written.count() >= self.sent.total(), within=within)
        except AssertionError:
            raise AssertionError(f"{self.name}: after {within:g} s {self.verdict()}") from None

    def await_committed(self, within: float = _WITHIN) -> None:
        """Wait until the group has committed everything."""

        def behind() -> dict[tuple[str, int], int]:
            with Admin(self.connection) as admin:
                ends = admin.end_offsets([self.name])
                done = admin.group_offsets(self.name, [self.name])
            return {
                place: end - done.get(place, 0) for place, end in ends.items() if done.get(place, 0) < end
            }

        last: list[Any] = []

        def committed() -> bool:
            last[:] = [behind()]
            return not last[0]

        try:
            eventually(committed, within=within, every=0.3)
        except AssertionError:
            raise AssertionError(f"{self.name}: not committed after {within:g} s: {last[0]}") from None

    def copies(self) -> list[tuple[str, int]]:
        """What is on the topic that the handler's results go to, in its order within each key."""
        with Registry(self.connection) as registry:
            decode = Decoder(self.declared.copies, registry)
            found = [decode(record.value) for record in committed(self.connection, self.declared.copies.name)]
        return [(value.key, value.n) for value in found]

    def watching_commits(self) -> CommitWatch:
        """Check the group's commits while the block lasts."""
        return CommitWatch(self)


class Sending:
    """Sends records at a rate from a thread."""

    def __init__(self, bench: Bench, rate: float, keys: int, hot: float) -> None:
        self._bench, self._rate, self._keys, self._hot = bench, rate, keys, hot
        self._closing = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join(120)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        bench = self._bench
        try:
            with Producer(bench.connection) as producer:
                began, number = time.monotonic(), 0
                while not self._closing.wait(max(0.0, began + number / self._rate - time.monotonic())):
                    number += 1
                    hot = number % 100 < self._hot * 100
                    key = "hot" if hot else f"k{number % self._keys}"
                    producer.send(bench.declared.topic, Numbered(key, bench.sent[key]))
                    bench.sent[key] += 1
        except BaseException as error:
            self._error = error


class CommitWatch:
    """Looks at a group's commits: they never move back, and never pass a record that no handler has finished."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.looks = 0
        self.wrong: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._closing.set()
        self._thread.join(30)
        if kind is None:
            assert not self.wrong, self.wrong[:5]
            assert self.looks > 5, f"it looked {self.looks} times"

    def _run(self) -> None:
        name = self._bench.name
        places = [(name, partition) for partition in range(self._bench.plan.partitions)]
        offsets = GroupOffsets(self._bench.connection, name)
        before: dict[tuple[str, int], int] = {}
        done: set[tuple[int, int]] = set()
        seen = 0
        try:
            while not self._closing.wait(0.1):
                try:
                    now = offsets.committed(places)
                except BrokerUnreachableError:  # eight of these begin at once on a new broker: it looks again
                    continue
                lines = self._bench.lines
                done.update((line.partition, line.offset) for line in lines[seen:])
                seen = len(lines)
                for place, offset in now.items():
                    begin = before.get(place, 0)
                    if offset < begin:
                        self.wrong.append(f"{place} went back from {begin} to {offset}")
                    missing = [n for n in range(begin, offset) if (place[1], n) not in done]
                    if missing:
                        self.wrong.append(f"{place} is at {offset} and {missing[:3]} are not delivered")
                before = now
                self.looks += 1
        finally:
            offsets.close()


def _plain(value: Any) -> Any:
    return dict(value) if hasattr(value, "items") else value
