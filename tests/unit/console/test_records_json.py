"""Records become JSON that is whole, bounded and readable by any client."""

from __future__ import annotations

import json

from gearshift.console.records import LARGEST_ANSWER, answer, json_of
from gearshift.schemas.printing import Printer
from gearshift.schemas.registry_client import Registry
from gearshift.topics.excerpt import Excerpt
from gearshift.topics.reader import ConsumedRecord


def no_registry() -> Registry:
    raise AssertionError("these records have no schema")


def excerpt(*values: bytes, forward: bool) -> Excerpt:
    records = [ConsumedRecord("t", 0, n, None, value, (), None) for n, value in enumerate(values)]
    return Excerpt(records=records, complete=True, forward=forward)


def test_half_of_a_surrogate_pair_is_escaped() -> None:
    assert json_of({"text": "ü"}) == '{"text":"ü"}'
    assert json_of({"text": "\ud800ü"}).encode() == b'{"text":"\\ud800\\u00fc"}'


def test_an_answer_keeps_the_records_nearest_to_where_it_begins() -> None:
    half = b"\x01" * (LARGEST_ANSWER * 3 // 4 * 2 // 5)  # shown as base64
    for forward, kept in ((True, [0, 1]), (False, [1, 2])):
        text = answer(excerpt(half, half, half, forward=forward), Printer(no_registry))
        found = json.loads(text)
        assert [record["offset"] for record in found["records"]] == kept
        assert not found["complete"]
        assert len(text) < LARGEST_ANSWER * 1.1


def test_one_record_is_shown_however_large_it_is() -> None:
    found = json.loads(answer(excerpt(b"\xff" * LARGEST_ANSWER, forward=False), Printer(no_registry)))
    assert len(found["records"]) == 1
    assert found["complete"]
