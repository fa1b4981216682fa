"""A project of one's own: its name, its files, and where it gets Gearshift from."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

import pytest

from gearshift.cli.projects.demo import require_extras
from gearshift.cli.projects.installed import Installed, source_of
from gearshift.cli.projects.skeleton import Project, create, module_of, name_of
from gearshift.cli.projects.stories import Story, find_stories, find_story
from gearshift.errors import DefinitionError, MachineError
from gearshift.settings import load

INDEX = Installed("0.1.0")
CHECKOUT = Installed("0.1.0", "file:///home/me/gearshift")


def made(folder: Path, source: Installed = INDEX, story: str | None = None) -> Path:
    create(Project.of(folder, find_story(story) if story else None), source)
    return folder


@pytest.mark.parametrize(
    ("written", "name", "module"),
    [
        ("shop", "shop", "shop"),
        ("My Shop", "my-shop", "my_shop"),
        ("--2nd_try--", "app-2nd-try", "app_2nd_try"),
        ("café straße", "cafe-strasse", "cafe_strasse"),
        ("json", "json", "json_app"),
        ("gearshift", "gearshift", "gearshift_app"),
        ("import", "import", "import_app"),
    ],
)
def test_any_name_becomes_one_that_python_and_kafka_take(written: str, name: str, module: str) -> None:
    assert (name_of(written), module_of(name_of(written))) == (name, module)


@pytest.mark.parametrize("written", ["", "!!!", "42", "日本"])
def test_a_name_without_letters_is_an_error(written: str) -> None:
    with pytest.raises(DefinitionError, match="cannot be the name of a project"):
        name_of(written)


def test_a_project_has_an_app_a_test_settings_and_a_ci_file(tmp_path: Path) -> None:
    folder = made(tmp_path / "My Shop")
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == {
        ".github/workflows/test.yml",
        ".gitignore",
        "gearshift.toml",
        "my_shop.py",
        "pyproject.toml",
        "tests/test_my_shop.py",
    }
    for path in folder.rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            assert "@NAME@" not in text and "@MODULE@" not in text and "@ORIGIN@" not in text
            if path.suffix == ".py":
                ast.parse(text)
    assert tomllib.loads((folder / "pyproject.toml").read_text())["project"]["name"] == "my-shop"
    assert "gearshift check my_shop.py" in (folder / ".github/workflows/test.yml").read_text()


def test_its_settings_are_valid_also_those_that_are_only_explained(tmp_path: Path) -> None:
    folder = made(tmp_path / "shop")
    file = folder / "gearshift.toml"
    assert load(folder=folder, environ={}).checkpoint_interval.total_seconds() == 60
    written = file.read_text()
    explained = [line for line in written.splitlines() if not line.startswith("# ") or _is_setting(line[2:])]
    file.write_text("\n".join(line.removeprefix("# ") for line in explained))
    found = load({"profile": "production"}, folder=folder, environ={})
    assert found.registry_url and found.spark_master and found.services and found.kafka


def _is_setting(line: str) -> bool:
    try:
        return bool(tomllib.loads(line))
    except tomllib.TOMLDecodeError:
        return False


@pytest.mark.parametrize(
    ("source", "requirement"),
    [
        (INDEX, "gearshift>=0.1.0"),
        (CHECKOUT, "gearshift @ file:///home/me/gearshift"),
        (Installed("0.1.0", "git+https://host/g.git@0c5b"), "gearshift @ git+https://host/g.git@0c5b"),
    ],
)
def test_it_depends_on_gearshift_from_where_it_was_installed(
    tmp_path: Path, source: Installed, requirement: str
) -> None:
    folder = made(tmp_path / "shop", source)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == [requirement]
    # Another machine cannot install from a folder of this one, and the files say so.
    told = (folder / ".github/workflows/test.yml").read_text()
    assert ("a path of one machine" in told) == source.is_local


@pytest.mark.parametrize(
    ("kept", "url"),
    [
        ({"url": "file:///home/me/gearshift", "dir_info": {"editable": True}}, "file:///home/me/gearshift"),
        (
            {"url": "https://host/g-0.1-py3-none-any.whl", "archive_info": {}},
            "https://host/g-0.1-py3-none-any.whl",
        ),
        (
            {
                "url": "https://host/g.git",
                "vcs_info": {"vcs": "git", "commit_id": "0c5b"},
                "subdirectory": "py",
            },
            "git+https://host/g.git@0c5b#subdirectory=py",
        ),
    ],
)
def test_the_source_is_what_the_installer_recorded(kept: dict[str, object], url: str) -> None:
    assert source_of(kept) == url


@pytest.mark.parametrize("name", sorted(find_stories()))
def test_a_story_becomes_a_project_with_all_its_modules(tmp_path: Path, name: str) -> None:
    folder = made(tmp_path / "mine", story=name)
    story = find_story(name)
    for path in story.folder.glob("*.py"):
        assert (folder / path.name).read_text() == path.read_text()
    assert (folder / "demos.py").is_file() and (folder / "tests" / f"test_{name}.py").is_file()
    assert not list(folder.rglob("__pycache__"))


def test_a_story_brings_the_extras_that_it_uses(tmp_path: Path) -> None:
    project = tomllib.loads((made(tmp_path / "food", story="food_delivery") / "pyproject.toml").read_text())
    assert project["project"]["dependencies"] == ["gearshift[cassandra,postgres,local-postgres]>=0.1.0"]


def test_a_demo_without_its_extras_says_how_to_install_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cassandra", None)  # as if it was not installed
    with pytest.raises(MachineError, match="needs cassandra, which is not installed") as raised:
        require_extras(find_story("food_delivery"))
    assert raised.value.hint.startswith('pip install "gearshift[cassandra]')
    require_extras(find_story("smart_meter"))


def test_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(DefinitionError, match=r"is not empty: it has notes\.txt"):
        made(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_what_git_and_a_virtual_environment_keep_is_not_in_the_way(tmp_path: Path) -> None:
    for name in (".git/config", ".venv/pyvenv.cfg", "env/pyvenv.cfg"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    made(tmp_path)
    assert (tmp_path / "pyproject.toml").exists()


def test_a_file_of_that_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shop").touch()
    with pytest.raises(DefinitionError, match="is a file"):
        made(tmp_path / "shop")


def test_an_unknown_story_is_an_error_with_the_one_that_was_meant() -> None:
    with pytest.raises(DefinitionError, match="unknown story 'smart-metre'") as raised:
        find_story("smart-metre")
    assert raised.value.hint == "did you mean smart_meter?"
    assert find_story("smart-meter") == Story("smart_meter", find_stories()["smart_meter"].folder)


def test_every_story_says_in_a_line_what_it_shows() -> None:
    for story in find_stories().values():
        assert 10 < len(story.summary) < 140, story.name
