"""The page of operators is what the checker answers: each of its small pipelines is planned again."""

from __future__ import annotations

import pytest

from tests.documentation import ROOT
from tools import operators


@pytest.mark.usefixtures("java")
def test_the_page_of_operators_says_what_the_checker_answers() -> None:
    page = (ROOT / "docs/operators.md").read_text("utf-8")
    assert operators.generate() == page, "run: .venv/bin/python tools/operators.py --write"
