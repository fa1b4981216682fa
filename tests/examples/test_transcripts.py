"""The commands of the concepts print what the pages show: the same form, with other numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import transcripts

_NUMBER = r"(?:[0-9a-f]{8}-[0-9a-f-]{27}|\d[\d,.:TZ–+-]*|–)(?: (?:ms|s|k?B|MB|GB|bytes|minutes?|seconds?)\b)?"
_NUMBERS = re.compile(rf"{_NUMBER}(?:\s+{_NUMBER})*")
_NAMES = {
    r"factory|house-\d+": "METER",
    r"customer-\d+": "CUSTOMER",
    r"\bpaused\b": "running",  # a delivery with too much to do pauses now and then
    r"\brow\b": "rows",
    r"[─━]+": "-",
}
# Lines that are there only if there was something to wait for.
_SOMETIMES = re.compile(r"boundary: |#\d+: the pause was ")


def form(printed: str) -> set[str]:
    """The lines of an output without what differs from run to run: numbers, and the space that they take.

    >>> sorted(form("0/7  2026-01-31T12:00:00Z  house-07  1.5 kW\\n0/9  2026-01-31T12:00:01Z  factory  2 kW"))
    ['#/# METER # kW']
    """
    lines: set[str] = set()
    for line in printed.splitlines():
        if not _SOMETIMES.match(line):
            for pattern, name in _NAMES.items():
                line = re.sub(pattern, name, line)
            lines.add(" ".join(_NUMBERS.sub("#", line).split()))
    return lines - {""}


@pytest.fixture(scope="module")
def concepts() -> Iterator[Path]:
    """The folder of the concepts' app, which runs on three brokers of its own."""
    with transcripts.running(transcripts.settled) as folder:
        yield folder


@pytest.mark.parametrize("page", transcripts.pages(), ids=lambda page: page.stem)
def test_the_commands_of_a_concept_print_what_its_page_shows(page: Path, concepts: Path) -> None:
    found = transcripts.transcripts(page)
    assert found
    for each in found:
        assert form(transcripts.run(concepts, each.command)) == form(each.printed), each.command
