"""Settles dead letters: replayed to where they failed, or discarded; each of them once, whatever happens.

The records that go back and the note that their letters are settled are written in one transaction. Everyone
who settles letters of a topic uses one transactional id, so a second one fences the first before it reads which
letters are open: what the first had committed is seen, and what it had not is taken back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from gearshift.topics.admin import Admin
from gearshift.topics.dead_letters import REPLAY_FOR, REPLAY_KEY, REPLAY_OF, REPLAYS, own_headers
from gearshift.topics.letters import SETTLED_AS, SETTLES, SUFFIX, DeadLetterTopic, Filter, Letter, Place
from gearshift.topics.transactions import TransactionalProducer

if TYPE_CHECKING:
    from gearshift.connection import Connection

T = TypeVar("T")
_AT_ONCE = 500  # letters a transaction: done long before it times out
_IN_A_HEADER = 500
_DECODING = "VALUE_CONVERTER"


@dataclass(frozen=True, slots=True)
class Known:
    """What must be known of an open letter to decide where it goes; its bytes stay on the topic."""

    place: Place
    origin: Place | None
    group_id: str | None
    stage: str
    matched: bool
    content: bytes = b""
    """A digest of the record: offsets begin again in a topic that is created again, and so come twice."""


@dataclass(frozen=True, slots=True)
class Errand:
    """One record that goes back, and every letter that is settled with it."""

    place: Place
    """The letter whose bytes are sent."""
    group_id: str | None
    """The one delivery it goes to by `<topic>.replay`; None sends it back to the topic itself."""
    settles: tuple[Place, ...]


@dataclass(slots=True)
class Settled:
    """What a replay or a discard did, or would do."""

    topic: str
    letters: int = 0
    """The open letters that are settled."""
    to_topic: int = 0
    """The records that went back to the topic."""
    to_deliveries: dict[str, int] = field(default_factory=dict[str, int])
    """The records that went back to one delivery, by its group id."""
    rows: int = 0
    """The letters that fit and are rows of files: the topic could not read them either, so they stay."""


def plan(letters: Sequence[Known]) -> list[Errand]:
    """Where the matched letters go, each record once.

    What a pipeline failed on goes back to the topic, where everybody reads it again: that settles every letter
    of the record. So does a record that a delivery could not decode and a pipeline neither. What only
    deliveries failed on goes to each of them alone.
    """
    errands: list[Errand] = []
    for origin, of_record in _by_origin(letters):
        matched = [letter for letter in of_record if letter.matched]
        of_pipeline = any(letter.group_id is None for letter in of_record)
        if origin is None or any(
            letter.group_id is None or (of_pipeline and letter.stage == _DECODING) for letter in matched
        ):
            errands.append(Errand(matched[0].place, None, tuple(letter.place for letter in of_record)))
            continue
        for group_id in dict.fromkeys(letter.group_id for letter in matched):
            same = [letter for letter in of_record if letter.group_id == group_id]
            first = next(letter for letter in same if letter.matched)
            errands.append(Errand(first.place, group_id, tuple(letter.place for letter in same)))
    return errands


def replay(
    connection: Connection, topic: str, only: Filter | None = None, *, dry_run: bool = False
) -> Settled:
    """Send the open letters that fit back to where they failed, and remember that they are settled."""
    if dry_run:
        letters = DeadLetterTopic(connection, topic)
        return _counted(letters.source, plan(_known(letters, only)), _rows(letters, only))
    with _settler(connection, topic) as producer:
        letters = DeadLetterTopic(connection, topic)
        errands = plan(_known(letters, only))
        sent = Settled(letters.source, rows=_rows(letters, only))
        if not errands:
            return sent
        admin = Admin(connection)
        partitions = admin.require([letters.source])[letters.source].partitions
        replays = f"{letters.source}{REPLAYS}"
        if any(errand.group_id is not None for errand in errands):
            admin.ensure_like(replays, letters.source)
        for some in _chunks(_with_bytes(letters, errands), _AT_ONCE):
            producer.begin()
            for errand, letter in some:
                headers = own_headers(letter.headers)
                if errand.group_id is not None and letter.origin is not None:
                    headers.append((REPLAY_FOR, errand.group_id.encode()))
                    headers.append((REPLAY_OF, b"%d/%d" % letter.origin))
                    headers.append((REPLAY_KEY, letter.idempotency_key))
                producer.send_bytes(
                    letters.source if errand.group_id is None else replays,
                    letter.value,
                    key=letter.key,
                    headers=headers,
                    partition=_same(letter.origin, partitions),
                )
            _note(
                producer, letters.name, [place for errand, _ in some for place in errand.settles], "replayed"
            )
            producer.commit()
            _count(sent, [errand for errand, _ in some])
        admin.await_stable([letters.name])
        return sent


def discard(
    connection: Connection, topic: str, only: Filter | None = None, *, dry_run: bool = False
) -> Settled:
    """Remember of the open letters that fit that nobody wants them back; their bytes age out with the topic."""
    if dry_run:
        letters = DeadLetterTopic(connection, topic)
        return Settled(letters.source, sum(1 for _ in letters.open_letters(only)))
    with _settler(connection, topic) as producer:
        letters = DeadLetterTopic(connection, topic)
        done = Settled(letters.source)
        for some in _chunks((letter.place for letter in letters.open_letters(only)), _AT_ONCE * 20):
            producer.begin()
            _note(producer, letters.name, some, "discarded")
            producer.commit()
            done.letters += len(some)
        if done.letters:
            Admin(connection).await_stable([letters.name])
        return done


def _settler(connection: Connection, topic: str) -> TransactionalProducer:
    source = topic.removesuffix(SUFFIX)
    Admin(connection).require([f"{source}{SUFFIX}"])
    return TransactionalProducer(connection, f"gearshift.dlq.{source}")


def _known(letters: DeadLetterTopic, only: Filter | None) -> list[Known]:
    return [
        Known(
            letter.place,
            letter.origin,
            letter.group_id,
            letter.stage,
            letter.row is None and (only is None or only.fits(letter)),
            _digest(letter),
        )
        for letter in letters.open_letters()
    ]


def _digest(letter: Letter) -> bytes:
    return hashlib.blake2b(b"%r %r" % (letter.key, letter.value), digest_size=16).digest()


def _rows(letters: DeadLetterTopic, only: Filter | None) -> int:
    return sum(1 for letter in letters.open_letters(only) if letter.row is not None)


def _by_origin(letters: Sequence[Known]) -> Iterator[tuple[Place | None, list[Known]]]:
    """The letters of each record of which one is matched; a letter of unknown origin is a record of its own."""
    found: dict[tuple[Place, bytes], list[Known]] = {}
    for letter in letters:
        if letter.origin is not None:
            found.setdefault((letter.origin, letter.content), []).append(letter)
        elif letter.matched:
            yield None, [letter]
    for (origin, _), of_record in found.items():
        if any(letter.matched for letter in of_record):
            yield origin, of_record


def _with_bytes(letters: DeadLetterTopic, errands: Sequence[Errand]) -> Iterator[tuple[Errand, Letter]]:
    wanted: Mapping[Place, Errand] = {errand.place: errand for errand in errands}
    for letter in letters.open_letters():
        errand = wanted.get(letter.place)
        if errand is not None:
            yield errand, letter


def _note(producer: TransactionalProducer, name: str, places: Sequence[Place], how: str) -> None:
    """Write which letters are settled, behind them on their own partition: so retention takes them first."""
    partitions: dict[int, list[Place]] = {}
    for place in places:
        partitions.setdefault(place[0], []).append(place)
    for partition, of_partition in partitions.items():
        for some in _chunks(of_partition, _IN_A_HEADER):
            headers = [(SETTLES, json.dumps(some).encode()), (SETTLED_AS, how.encode())]
            producer.send_bytes(name, None, headers=list(headers), partition=partition)


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of at most this many.

    >>> list(_chunks("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


def _same(origin: Place | None, partitions: int) -> int | None:
    """The record's own partition, if the topic still has it."""
    return origin[0] if origin is not None and origin[0] < partitions else None


def _counted(topic: str, errands: Sequence[Errand], rows: int) -> Settled:
    settled = Settled(topic, rows=rows)
    _count(settled, errands)
    return settled


def _count(settled: Settled, errands: Sequence[Errand]) -> None:
    for errand in errands:
        settled.letters += len(errand.settles)
        if errand.group_id is None:
            settled.to_topic += 1
        else:
            settled.to_deliveries[errand.group_id] = settled.to_deliveries.get(errand.group_id, 0) + 1
