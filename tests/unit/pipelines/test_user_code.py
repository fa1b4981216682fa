"""Executors get the modules next to an app's file, and the Python of the settings."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from gearshift.definitions import Graph
from gearshift.runner.loading import load_app
from gearshift.spark.user_code import choose_python, siblings
from tests.unit.pipelines import test_failures

APP = """
from dataclasses import dataclass

import gearshift as gs

@dataclass
class Word:
    key: str

app = gs.App("shop")
words = app.topic("words", value=Word)

@app.pipeline(source=words, to=words, gear="near-real-time")
def copy(words):
    return words
"""


def test_the_files_and_packages_next_to_the_app_are_sent_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "shop_of_this_test.py").write_text(APP, encoding="utf-8")
    for name in ("tariffs.py", "rules/__init__.py", "rules/deep/limits.py", "notes/old.py", ".venv/lib.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    sent = siblings(load_app(tmp_path / "shop_of_this_test.py").graph)
    assert sorted(sent) == ["rules/__init__.py", "rules/deep/limits.py", "tariffs.py"]
    assert sent["tariffs.py"] == tmp_path / "tariffs.py"


def test_an_app_in_a_package_takes_its_package_along() -> None:
    pipeline = test_failures.PIPELINE
    sent = siblings(Graph(app="x", timezone="UTC", pipelines={"pipe": pipeline}))
    assert "tests/unit/pipelines/test_failures.py" in sent
    assert {name.partition("/")[0] for name in sent} == {"tests"}


def test_what_is_installed_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "installed_shop_of_this_test.py").write_text(APP, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    app = importlib.import_module("installed_shop_of_this_test").app
    assert siblings(app.graph) == {}


def test_udfs_run_in_the_python_of_the_settings_or_on_this_machine_in_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environ: dict[str, str] = {}
    monkeypatch.setattr("os.environ", environ)
    choose_python("yarn", {})
    assert environ == {}
    choose_python("spark://127.0.0.1:7077", {})
    assert environ == {"PYSPARK_PYTHON": sys.executable}
    choose_python("yarn", {"spark.pyspark.python": "./environment/bin/python"})
    assert environ == {"PYSPARK_PYTHON": "./environment/bin/python"}
