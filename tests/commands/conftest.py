"""What a person at a terminal has."""

from __future__ import annotations

from pathlib import Path

import pytest

from gearshift.connection import Connection
from tests.command import Command


@pytest.fixture
def command(connection: Connection, tmp_path: Path) -> Command:
    """`gearshift` in an empty folder, on the session's stack."""
    return Command(connection, tmp_path)
