"""Settles dead letters exactly once: replays them to where they failed, or discards them.

The replayed records and the note that their letters are settled are written in one transaction. All processes that
settle letters of a topic use the same transactional id, so a second one fences the first before it reads which
letters are open: it sees what the first had committed, and the rest is aborted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from gearshift.topics.admin import Admin
from gearshift.topics.dead_letters.letters import (
    SETTLED_AS,
    SETTLES,
    SUFFIX,
    DeadLetterTopic,
    Filter,
    Letter,
)
from gearshift.topics.dead_letters.writer import REPLAY_FOR, REPLAY_KEY, REPLAY_OF, REPLAYS, own_headers
from gearshift.topics.partitions import PartitionOffset
from gearshift.topics.transactions import TransactionalProducer

if TYPE_CHECKING:
    from gearshift.connection import Connection

T = TypeVar("T")
_PER_TRANSACTION = 500  # letters: written long before the transaction times out
_PER_HEADER = 500
_DECODING = "VALUE_CONVERTER"


@dataclass(frozen=True, slots=True)
class OpenLetter:
    """The part of an open letter that decides where it is replayed to; its bytes stay on the topic."""

    position: PartitionOffset
    origin: PartitionOffset | None
    group_id: str | None
    stage: str
    matched: bool
    content: bytes = b""
    """A digest of the record: a recreated topic uses the same offsets again."""


@dataclass(frozen=True, slots=True)
class Replay:
    """One record to send again, and the letters that are settled with it."""

    position: PartitionOffset
    """The letter whose bytes are sent."""
    group_id: str | None
    """The delivery that gets it through `<topic>.replay`; None to send it to the topic itself."""
    settles: tuple[PartitionOffset, ...]


@dataclass(slots=True)
class Settled:
    """The result of a replay or a discard, or of its dry run."""

    topic: str
    letters: int = 0
    """The letters that were settled."""
    to_topic: int = 0
    """The records that were sent to the topic."""
    to_deliveries: dict[str, int] = field(default_factory=dict[str, int])
    """The records that were sent to one delivery, by its group id."""
    rows: int = 0
    """Selected letters that are rows of files: they never fit the topic's schema, so they stay open."""
    results: int = 0
    """Selected letters that are rows of a pipeline's result: they must be computed again, so they stay open."""


def plan(letters: Sequence[OpenLetter]) -> list[Replay]:
    """Decide where the matched letters are replayed to, each record once.

    A record that a pipeline failed on is sent to the topic, where all consumers read it again: that settles every
    letter of the record. The same holds for a record that neither a delivery nor a pipeline could decode. A record
    that only deliveries failed on is sent to each of them.
    """
    planned: list[Replay] = []
    for origin, of_record in _by_origin(letters):
        matched = [letter for letter in of_record if letter.matched]
        of_pipeline = any(letter.group_id is None for letter in of_record)
        if origin is None or any(
            letter.group_id is None or (of_pipeline and letter.stage == _DECODING) for letter in matched
        ):
            planned.append(Replay(matched[0].position, None, tuple(letter.position for letter in of_record)))
            continue
        for group_id in dict.fromkeys(letter.group_id for letter in matched):
            same = [letter for letter in of_record if letter.group_id == group_id]
            first = next(letter for letter in same if letter.matched)
            planned.append(Replay(first.position, group_id, tuple(letter.position for letter in same)))
    return planned


def replay(
    connection: Connection, topic: str, only: Filter | None = None, *, dry_run: bool = False
) -> Settled:
    """Send the selected open letters to where they failed, and mark them as settled."""
    if dry_run:
        letters = DeadLetterTopic(connection, topic)
        return _counted(plan(_open_letters(letters, only)), _unreplayable(letters, only))
    with _settler(connection, topic) as producer:
        letters = DeadLetterTopic(connection, topic)
        planned = plan(_open_letters(letters, only))
        sent = _unreplayable(letters, only)
        if not planned:
            return sent
        admin = Admin(connection)
        partitions = admin.require([letters.source])[letters.source].partitions
        replay_topic = f"{letters.source}{REPLAYS}"
        if any(item.group_id is not None for item in planned):
            admin.ensure_like(replay_topic, letters.source)
        for chunk in _chunks(_with_bytes(letters, planned), _PER_TRANSACTION):
            producer.begin()
            for item, letter in chunk:
                headers = own_headers(letter.headers)
                if letter.origin is not None:
                    headers.append((REPLAY_OF, b"%d/%d" % letter.origin))
                if item.group_id is not None and letter.origin is not None:
                    headers.append((REPLAY_FOR, item.group_id.encode()))
                    headers.append((REPLAY_KEY, letter.idempotency_key))
                producer.send_bytes(
                    letters.source if item.group_id is None else replay_topic,
                    letter.value,
                    key=letter.key,
                    headers=headers,
                    partition=_same_partition(letter.origin, partitions),
                )
            _note(
                producer,
                letters.name,
                [position for item, _ in chunk for position in item.settles],
                "replayed",
            )
            producer.commit()
            _count(sent, [item for item, _ in chunk])
        admin.await_stable([letters.name])
        return sent


def discard(
    connection: Connection, topic: str, only: Filter | None = None, *, dry_run: bool = False
) -> Settled:
    """Mark the selected open letters as discarded; retention deletes their bytes."""
    if dry_run:
        letters = DeadLetterTopic(connection, topic)
        return Settled(letters.source, sum(1 for _ in letters.open_letters(only)))
    with _settler(connection, topic) as producer:
        letters = DeadLetterTopic(connection, topic)
        done = Settled(letters.source)
        for chunk in _chunks(
            (letter.position for letter in letters.open_letters(only)), _PER_TRANSACTION * 20
        ):
            producer.begin()
            _note(producer, letters.name, chunk, "discarded")
            producer.commit()
            done.letters += len(chunk)
        if done.letters:
            Admin(connection).await_stable([letters.name])
        return done


def _settler(connection: Connection, topic: str) -> TransactionalProducer:
    source = topic.removesuffix(SUFFIX)
    Admin(connection).require([f"{source}{SUFFIX}"])
    return TransactionalProducer(connection, f"gearshift.dlq.{source}")


def _open_letters(letters: DeadLetterTopic, only: Filter | None) -> list[OpenLetter]:
    return [
        OpenLetter(
            letter.position,
            letter.origin,
            letter.group_id,
            letter.stage,
            letter.row is None and letter.result_for is None and (only is None or only.fits(letter)),
            _digest(letter),
        )
        for letter in letters.open_letters()
    ]


def _digest(letter: Letter) -> bytes:
    return hashlib.blake2b(b"%r %r" % (letter.key, letter.value), digest_size=16).digest()


def _unreplayable(letters: DeadLetterTopic, only: Filter | None) -> Settled:
    """Count the selected letters that cannot be replayed."""
    settled = Settled(letters.source)
    for letter in letters.open_letters(only):
        settled.rows += letter.row is not None
        settled.results += letter.result_for is not None
    return settled


def _by_origin(letters: Sequence[OpenLetter]) -> Iterator[tuple[PartitionOffset | None, list[OpenLetter]]]:
    """Group the letters by record, if one of them is matched; a letter without origin is a separate record."""
    found: dict[tuple[PartitionOffset, bytes], list[OpenLetter]] = {}
    for letter in letters:
        if letter.origin is not None:
            found.setdefault((letter.origin, letter.content), []).append(letter)
        elif letter.matched:
            yield None, [letter]
    for (origin, _), of_record in found.items():
        if any(letter.matched for letter in of_record):
            yield origin, of_record


def _with_bytes(letters: DeadLetterTopic, planned: Sequence[Replay]) -> Iterator[tuple[Replay, Letter]]:
    wanted: Mapping[PartitionOffset, Replay] = {item.position: item for item in planned}
    for letter in letters.open_letters():
        item = wanted.get(letter.position)
        if item is not None:
            yield item, letter


def _note(producer: TransactionalProducer, name: str, positions: Sequence[PartitionOffset], how: str) -> None:
    """Write which letters are settled, behind them on the same partition: so retention deletes the letters first."""
    partitions: dict[int, list[PartitionOffset]] = {}
    for position in positions:
        partitions.setdefault(position[0], []).append(position)
    for partition, of_partition in partitions.items():
        for chunk in _chunks(of_partition, _PER_HEADER):
            headers = [(SETTLES, json.dumps(chunk).encode()), (SETTLED_AS, how.encode())]
            producer.send_bytes(name, None, headers=list(headers), partition=partition)


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Split into lists of at most `size` items.

    >>> list(_chunks("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def _same_partition(origin: PartitionOffset | None, partitions: int) -> int | None:
    """The record's original partition, if the topic still has it."""
    return origin[0] if origin is not None and origin[0] < partitions else None


def _counted(planned: Sequence[Replay], settled: Settled) -> Settled:
    _count(settled, planned)
    return settled


def _count(settled: Settled, planned: Sequence[Replay]) -> None:
    for item in planned:
        settled.letters += len(item.settles)
        if item.group_id is None:
            settled.to_topic += 1
        else:
            settled.to_deliveries[item.group_id] = settled.to_deliveries.get(item.group_id, 0) + 1
