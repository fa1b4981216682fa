"""The plugin as a user has it: a folder with one test file, nothing configured, and none of our fixtures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.documentation import ROOT, python_of

PAGE = ROOT / "docs/testing.md"
# The stores take longer to start than everything else, and other tests use the same fixture.
WITHOUT_STORES = ("-k", "not store")


def test_the_tests_of_the_documentation_pass_in_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "test_smart_meter.py").write_text(python_of(PAGE), "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", *WITHOUT_STORES],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed, 1 deselected" in done.stdout


def test_a_run_without_its_fixtures_starts_and_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        "import sys\n\n\ndef test_plain():\n"
        "    assert 'gearshift.testing.plugin' in sys.modules\n"
        "    assert not {'pyspark', 'confluent_kafka', 'deltalake'} & set(sys.modules)\n",
        "utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
