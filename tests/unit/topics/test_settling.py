"""Where dead letters go back to, decided without a broker."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gearshift.topics.settling import Errand, Known, plan

PUT, DECODE = "TASK_PUT", "VALUE_CONVERTER"


def known(
    number: int, origin: int | None, group: str | None = None, stage: str = PUT, matched: bool = True
) -> Known:
    return Known((0, number), None if origin is None else (0, origin), group, stage, matched)


def test_a_pipelines_record_goes_to_the_topic_and_a_deliverys_to_its_group() -> None:
    assert plan([known(0, 10, stage=DECODE), known(1, 11, "sms")]) == [
        Errand((0, 0), None, ((0, 0),)),
        Errand((0, 1), "sms", ((0, 1),)),
    ]


def test_letters_of_one_record_and_one_party_are_one_errand() -> None:
    assert plan([known(0, 10, "sms"), known(1, 10, "sms"), known(2, 10, "mail")]) == [
        Errand((0, 0), "sms", ((0, 0), (0, 1))),
        Errand((0, 2), "mail", ((0, 2),)),
    ]


def test_two_pipelines_that_failed_on_one_record_get_it_once() -> None:
    letters = [known(0, 10, stage=DECODE), known(1, 10, stage=DECODE)]
    assert plan(letters) == [Errand((0, 0), None, ((0, 0), (0, 1)))]


def test_what_neither_a_pipeline_nor_a_delivery_could_decode_goes_to_the_topic_only() -> None:
    letters = [known(0, 10, "sms", DECODE), known(1, 10, stage=DECODE, matched=False)]
    assert plan(letters) == [Errand((0, 0), None, ((0, 0), (0, 1)))]


def test_what_only_deliveries_could_not_decode_goes_to_each_of_them() -> None:
    letters = [known(0, 10, "sms", DECODE), known(1, 10, "mail", DECODE)]
    assert [errand.group_id for errand in plan(letters)] == ["sms", "mail"]


def test_a_failed_handler_is_not_sent_through_the_topic_because_a_pipeline_failed_too() -> None:
    letters = [known(0, 10, "sms"), known(1, 10, stage=DECODE, matched=False)]
    assert plan(letters) == [Errand((0, 0), "sms", ((0, 0),))]


def test_two_records_that_had_one_offset_both_go_back() -> None:
    """The topic was deleted and created again between the two."""
    letters = [replace(known(0, 10, "sms"), content=b"old"), replace(known(1, 10, "sms"), content=b"new")]
    assert plan(letters) == [Errand((0, 0), "sms", ((0, 0),)), Errand((0, 1), "sms", ((0, 1),))]


def test_letters_that_say_nothing_of_their_origin_are_records_of_their_own() -> None:
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
).map(lambda letters: [Known((0, n), *_rest(letter)) for n, letter in enumerate(letters)])


def _rest(letter: Known) -> tuple[tuple[int, int] | None, str | None, str, bool]:
    return letter.origin, letter.group_id, letter.stage, letter.matched


@given(LETTERS)
def test_every_matched_letter_is_settled_once_and_no_record_goes_anywhere_twice(letters: list[Known]) -> None:
    errands = plan(letters)
    by_place = {letter.place: letter for letter in letters}
    settled = [place for errand in errands for place in errand.settles]
    assert len(settled) == len(set(settled))
    assert {letter.place for letter in letters if letter.matched} <= set(settled)
    assert all(errand.place in errand.settles and by_place[errand.place].matched for errand in errands)
    ways = [
        (by_place[errand.place].origin, errand.group_id)
        for errand in errands
        if by_place[errand.place].origin is not None
    ]
    assert len(ways) == len(set(ways))
    # Through the topic everybody gets it: then nobody gets it alone as well.
    to_all = {origin for origin, group_id in ways if group_id is None}
    assert not any(origin in to_all for origin, group_id in ways if group_id is not None)
    # Letters that do not match stay open, unless the record they tell of went to everybody or to their own group.
    for place in settled:
        letter = by_place[place]
        assert letter.matched or (letter.origin, None) in ways or (letter.origin, letter.group_id) in ways
