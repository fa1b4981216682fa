"""What is tried again, and when."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.definitions import Retry
from gearshift.delivery.retry import is_retriable, wait_before
from gearshift.errors import BrokerUnreachableError, EncodeError, PermanentError, RetriableError

SECOND = timedelta(seconds=1)


class OwnError(ValueError):
    """A user's own error, which says of itself that it passes."""

    retriable = True


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(),
        TimeoutError(),
        OSError("no route"),
        RuntimeError("busy"),
        RetriableError("later"),
        BrokerUnreachableError("nobody"),
        OwnError(),
    ],
)
def test_what_may_pass_is_tried_again(error: Exception) -> None:
    assert is_retriable(error)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no number"),
        KeyError("meter_id"),
        TypeError(),
        AttributeError(),
        ZeroDivisionError(),
        AssertionError(),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
        PermanentError("never"),
        EncodeError("does not fit"),
    ],
)
def test_what_is_wrong_for_good_is_not(error: Exception) -> None:
    assert not is_retriable(error)


@given(st.integers(1, 10_000), st.floats(0.001, 10), st.floats(0.001, 100))
def test_the_wait_doubles_up_to_the_longest_with_jitter(attempt: int, first: float, longest: float) -> None:
    retry = Retry(first=timedelta(seconds=first), longest=timedelta(seconds=longest))
    most = min(retry.first * 2 ** min(attempt - 1, 30), retry.longest)
    wait = wait_before(attempt, retry)
    assert most * 0.49 <= wait <= most


def test_the_waits_of_two_consumers_differ() -> None:
    assert len({wait_before(5, Retry()) for _ in range(20)}) > 1


def test_a_destination_that_names_a_time_is_obeyed_within_reason() -> None:
    error = RetriableError("slow down")
    error.retry_after = 30 * SECOND
    assert wait_before(1, Retry(), error) == 30 * SECOND
    error.retry_after = timedelta(hours=5)
    assert wait_before(1, Retry(within=timedelta(minutes=5)), error) == timedelta(minutes=5)
    error.retry_after = timedelta(0)
    assert wait_before(1, Retry(), error) == Retry().first
