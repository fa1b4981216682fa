"""Loads the App from a user's file; an error has the file and line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gearshift.errors import AppLoadError, DefinitionError
from gearshift.runner.loading import load_app


@pytest.fixture(autouse=True)
def _leave_no_trace() -> Iterator[None]:
    """Undo the import of a user's file, which otherwise lasts for the whole process."""
    modules, path = dict(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - set(modules):
        del sys.modules[name]


def write(folder: Path, text: str, name: str = "an_app.py") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def refused(file: Path) -> AppLoadError:
    with pytest.raises(AppLoadError) as caught:
        load_app(file)
    assert caught.value.hint
    return caught.value


def test_the_only_app_is_found_under_any_name(tmp_path: Path) -> None:
    file = write(tmp_path, "import gearshift as gs\nmeters = gs.App('smart-meter')\nsame = meters\n")
    assert load_app(file).name == "smart-meter"


def test_a_file_imports_its_neighbours_and_dataclasses_find_their_module(tmp_path: Path) -> None:
    write(tmp_path, "NAME = 'from-next-door'\n", "next_door.py")
    file = write(
        tmp_path,
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "import gearshift as gs\n"
        "from next_door import NAME\n"
        "@dataclass\n"
        "class Reading:\n"
        "    load: float | None\n"
        "app = gs.App(NAME)\n"
        "app.topic('readings', value=Reading)\n",
    )
    app = load_app(file)
    assert app.name == "from-next-door"
    assert app.graph.topics["readings"].defined_at.line == 9


def test_a_missing_file_no_python_no_app_and_two_apps_have_different_errors(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.py").what == "no such file"
    assert refused(tmp_path).what == "no such file"
    assert refused(write(tmp_path, "text", "notes.txt")).what == "not a Python file"
    assert refused(write(tmp_path, "x = 1")).what == "no App in the file"
    two = "import gearshift as gs\na = gs.App('a')\nb = gs.App('b')\n"
    assert refused(write(tmp_path, two)).what == "2 Apps in the file"


def test_an_exception_is_shown_with_the_line_of_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "def deep():\n    import json\n    json.loads('{')\n\n\ndeep()\n")
    error = refused(file)
    assert error.what.startswith("JSONDecodeError: ")
    assert (error.file, error.line) == (str(file), 3)


def test_a_syntax_error_is_shown_where_it_is_also_in_an_imported_module(tmp_path: Path) -> None:
    file = write(tmp_path, "x = 1\ny = (\n")
    error = refused(file)
    assert (error.file, error.line) == (str(file), 2)
    beside = write(tmp_path, "x = 1\n\nz = = 2\n", "broken_neighbour.py")
    error = refused(write(tmp_path, "import broken_neighbour\n"))
    assert (error.file, error.line) == (str(beside), 3)


def test_a_missing_import_is_named(tmp_path: Path) -> None:
    error = refused(write(tmp_path, "\nimport no_such_package\n"))
    assert "no_such_package" in error.what and error.line == 2


def test_an_invalid_declaration_keeps_its_own_file_and_line(tmp_path: Path) -> None:
    file = write(tmp_path, "import gearshift as gs\napp = gs.App('app')\napp.table('not a name')\n")
    with pytest.raises(DefinitionError) as caught:
        load_app(file)
    assert type(caught.value) is DefinitionError
    assert (caught.value.file, caught.value.line) == (str(file), 3)


def test_a_file_named_like_a_module_of_python_does_not_replace_it(tmp_path: Path) -> None:
    import queue

    file = write(tmp_path, "import gearshift as gs\napp = gs.App('app')\n", "queue.py")
    assert load_app(file).name == "app"
    assert sys.modules["queue"] is queue
