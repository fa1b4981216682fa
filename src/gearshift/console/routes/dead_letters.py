"""Dead letters: by cause, one by one, replayed and discarded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field, StringConstraints

from gearshift.console.console import Here
from gearshift.console.inputs import Text, TopicPath
from gearshift.console.problems import Refusal
from gearshift.console.records import json_of
from gearshift.errors import FencedError, ProduceError
from gearshift.schemas.printing import Printer
from gearshift.topics.dead_letters.letter_data import (
    causes_data,
    discarded_data,
    letter_data,
    newest_letters,
    replayed_data,
)
from gearshift.topics.dead_letters.letters import DeadLetterTopic, Filter, Letter
from gearshift.topics.dead_letters.replay import Settled
from gearshift.topics.dead_letters.replay import discard as discard_letters
from gearshift.topics.dead_letters.replay import replay as replay_letters
from gearshift.topics.dead_letters.summaries import Summaries
from gearshift.topics.dead_letters.writer import CONNECT, own_headers
from gearshift.topics.record_data import header_data

router = APIRouter(tags=["dead letters"])

_LONGEST = 500
"""Characters of a filter; Python refuses to read numbers of thousands of digits."""
_SUMMARIES: dict[str, Summaries] = {}
"""By cluster: pages ask every few seconds, and a summary reads the whole topic."""


class Selection(BaseModel):
    """The letters to settle: those that match one value of every field, or all."""

    only: Annotated[list[Annotated[Text, StringConstraints(max_length=_LONGEST)]], Field(max_length=100)] = []
    """FIELD=VALUE; fields: delivery, pipeline, exception, reason (substring), partition, offset."""
    dry_run: bool = False


@router.get("/api/dead-letters")
def dead_letters(console: Here) -> Response:
    """The open dead letters of every topic, by cause."""
    connection = console.connection
    summaries = _SUMMARIES.setdefault(connection.bootstrap_servers, Summaries())
    found = [causes_data(name, causes) for name, causes in summaries.read(connection).items()]
    return Response(json_of(found), media_type="application/json")


@router.get("/api/dead-letters/{topic}")
def of_topic(
    topic: TopicPath,
    console: Here,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    only: Annotated[
        list[Annotated[str, StringConstraints(max_length=_LONGEST)]],
        Query(max_length=100, description="FIELD=VALUE, repeatable"),
    ] = [],  # noqa: B006 - FastAPI copies it
) -> Response:
    """The newest open dead letters of a topic."""
    wanted = Filter.parse(only)
    letters = DeadLetterTopic(console.connection, topic)
    count, newest = newest_letters(letters.open_letters(wanted), limit)
    with Printer.of(console.connection) as printer:
        found = {
            "topic": letters.source,
            "dead_letters": letters.name,
            "open": count,
            "letters": [_letter(letter, printer) for letter in newest],
        }
    return Response(json_of(found), media_type="application/json")


@router.post("/api/dead-letters/{topic}/replay")
def replay(topic: TopicPath, selection: Selection, console: Here) -> dict[str, Any]:
    """Send open dead letters back, once: to the topic, or only to the delivery that failed on them."""
    wanted = Filter.parse(selection.only)
    done = _settle(lambda: replay_letters(console.connection, topic, wanted, dry_run=selection.dry_run))
    return replayed_data(done, dry_run=selection.dry_run)


@router.post("/api/dead-letters/{topic}/discard")
def discard(topic: TopicPath, selection: Selection, console: Here) -> dict[str, Any]:
    """Close open dead letters without replaying them."""
    wanted = Filter.parse(selection.only)
    done = _settle(lambda: discard_letters(console.connection, topic, wanted, dry_run=selection.dry_run))
    return discarded_data(done, dry_run=selection.dry_run)


def _settle(work: Callable[[], Settled]) -> Settled:
    try:
        return work()
    except FencedError as error:  # somebody else settles letters of the topic
        raise Refusal(409, error) from None
    except ProduceError as error:
        raise Refusal(503, error) from None


def _letter(letter: Letter, printer: Printer) -> dict[str, Any]:
    shown = None if letter.value is None else printer.show(letter.value)
    is_decoded = shown is not None and shown.error is None and shown.how in ("avro", "json")
    stack = next((value for name, value in letter.headers if name == f"{CONNECT}exception.stacktrace"), None)
    return {
        **letter_data(letter),
        "stack": None if stack is None else stack.decode("utf-8", "replace"),
        "decoded": shown.datum if shown is not None and is_decoded else None,
        "headers": [header_data(name, content) for name, content in own_headers(letter.headers)],
    }
