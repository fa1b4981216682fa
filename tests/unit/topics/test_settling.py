"""The plan of a replay of dead letters, without a broker."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gearshift.topics.dead_letters.replay import OpenLetter, Replay, plan

PUT, DECODE = "TASK_PUT", "VALUE_CONVERTER"


def known(
    number: int, origin: int | None, group: str | None = None, stage: str = PUT, matched: bool = True
) -> OpenLetter:
    return OpenLetter((0, number), None if origin is None else (0, origin), group, stage, matched)


def test_a_pipelines_record_goes_to_the_topic_and_a_deliverys_to_its_group() -> None:
    assert plan([known(0, 10, stage=DECODE), known(1, 11, "sms")]) == [
        Replay((0, 0), None, ((0, 0),)),
        Replay((0, 1), "sms", ((0, 1),)),
    ]


def test_letters_of_one_record_and_one_group_are_one_replay() -> None:
    assert plan([known(0, 10, "sms"), known(1, 10, "sms"), known(2, 10, "mail")]) == [
        Replay((0, 0), "sms", ((0, 0), (0, 1))),
        Replay((0, 2), "mail", ((0, 2),)),
    ]


def test_two_pipelines_that_failed_on_one_record_get_it_once() -> None:
    letters = [known(0, 10, stage=DECODE), known(1, 10, stage=DECODE)]
    assert plan(letters) == [Replay((0, 0), None, ((0, 0), (0, 1)))]


def test_what_neither_a_pipeline_nor_a_delivery_could_decode_goes_to_the_topic_only() -> None:
    letters = [known(0, 10, "sms", DECODE), known(1, 10, stage=DECODE, matched=False)]
    assert plan(letters) == [Replay((0, 0), None, ((0, 0), (0, 1)))]


def test_what_only_deliveries_could_not_decode_goes_to_each_of_them() -> None:
    letters = [known(0, 10, "sms", DECODE), known(1, 10, "mail", DECODE)]
    assert [each.group_id for each in plan(letters)] == ["sms", "mail"]


def test_a_failed_handler_is_not_sent_through_the_topic_because_a_pipeline_failed_too() -> None:
    letters = [known(0, 10, "sms"), known(1, 10, stage=DECODE, matched=False)]
    assert plan(letters) == [Replay((0, 0), "sms", ((0, 0),))]


def test_two_records_with_the_same_offset_are_both_replayed() -> None:
    """The topic was deleted and created again between the two."""
    letters = [replace(known(0, 10, "sms"), content=b"old"), replace(known(1, 10, "sms"), content=b"new")]
    assert plan(letters) == [Replay((0, 0), "sms", ((0, 0),)), Replay((0, 1), "sms", ((0, 1),))]


def test_letters_without_an_origin_are_separate_records() -> None:
    assert len(plan([known(0, None), known(1, None), known(2, None, matched=False)])) == 2


LETTERS = st.lists(
    st.builds(
        known,
        st.integers(),
        st.one_of(st.none(), st.integers(0, 3)),
        st.sampled_from([None, "sms", "mail"]),
        st.sampled_from([PUT, DECODE]),
        st.booleans(),
    ),
    max_size=20,
).map(lambda letters: [OpenLetter((0, n), *_rest(letter)) for n, letter in enumerate(letters)])


def _rest(letter: OpenLetter) -> tuple[tuple[int, int] | None, str | None, str, bool]:
    return letter.origin, letter.group_id, letter.stage, letter.matched


@given(LETTERS)
def test_every_matched_letter_is_settled_once_and_no_record_is_sent_twice(
    letters: list[OpenLetter],
) -> None:
    replays = plan(letters)
    by_position = {letter.position: letter for letter in letters}
    settled = [position for each in replays for position in each.settles]
    assert len(settled) == len(set(settled))
    assert {letter.position for letter in letters if letter.matched} <= set(settled)
    assert all(each.position in each.settles and by_position[each.position].matched for each in replays)
    ways = [
        (by_position[each.position].origin, each.group_id)
        for each in replays
        if by_position[each.position].origin is not None
    ]
    assert len(ways) == len(set(ways))
    # All consumers read a record on the topic: then no delivery gets it alone as well.
    to_all = {origin for origin, group_id in ways if group_id is None}
    assert not any(origin in to_all for origin, group_id in ways if group_id is not None)
    # Letters that do not match stay open, unless their record was sent to the topic or to their group.
    for position in settled:
        letter = by_position[position]
        assert letter.matched or (letter.origin, None) in ways or (letter.origin, letter.group_id) in ways
