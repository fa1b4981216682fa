"""Which failures are retried, and when."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.definitions import Retry
from gearshift.delivery.failures import backoff, is_retriable
from gearshift.errors import BrokerUnreachableError, EncodeError, PermanentError, RetriableError

SECOND = timedelta(seconds=1)


class OwnError(ValueError):
    """A user-defined error that declares itself retriable."""

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
def test_transient_errors_are_retried(error: Exception) -> None:
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
def test_permanent_errors_are_not(error: Exception) -> None:
    assert not is_retriable(error)


@given(st.integers(1, 10_000), st.floats(0.001, 10), st.floats(0.001, 100))
def test_the_wait_doubles_up_to_the_longest_with_jitter(attempt: int, first: float, longest: float) -> None:
    retry = Retry(backoff=timedelta(seconds=first), max_backoff=timedelta(seconds=longest))
    most = min(retry.backoff * 2 ** min(attempt - 1, 30), retry.max_backoff)
    wait = backoff(attempt, retry)
    assert most * 0.49 <= wait <= most


def test_the_waits_of_two_consumers_differ() -> None:
    assert len({backoff(5, Retry()) for _ in range(20)}) > 1


def test_retry_after_is_obeyed_within_limits() -> None:
    error = RetriableError("slow down")
    error.retry_after = 30 * SECOND
    assert backoff(1, Retry(), error) == 30 * SECOND
    error.retry_after = timedelta(hours=5)
    assert backoff(1, Retry(timeout=timedelta(minutes=5)), error) == timedelta(minutes=5)
    error.retry_after = timedelta(0)
    assert backoff(1, Retry(), error) == Retry().backoff
