"""The files of a new project."""

from __future__ import annotations

import keyword
import re
import shutil
import sys
import unicodedata
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from gearshift.cli.projects.installed import Installed
from gearshift.cli.projects.stories import Story
from gearshift.errors import DefinitionError, DiskError

_TAKEN = {"gearshift", "pyspark", "pytest", "pandas", "numpy", "tests", "test", "conftest", "setup", "demo"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project to create: its folder, its name, the module of its app, and the story that it begins with."""

    folder: Path
    name: str
    module: str
    story: Story | None = None

    @classmethod
    def of(cls, place: Path | None, story: Story | None) -> Project:
        """A project in this folder, named after it."""
        folder = (place or Path.cwd()).resolve()
        name = name_of(folder.name)
        return cls(
            folder=folder, name=name, module=module_of(name) if story is None else story.name, story=story
        )


def name_of(written: str) -> str:
    """A name for the package and the app.

    >>> name_of("My Shop 2!"), name_of("Café Straße")
    ('my-shop-2', 'cafe-strasse')
    """
    plain = unicodedata.normalize("NFKD", written.casefold())  # an accent becomes a character of its own
    plain = "".join(character for character in plain if not unicodedata.combining(character))
    name = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    if not re.search("[a-z]", name):
        raise DefinitionError(
            f"{written!r} cannot be the name of a project", hint="use letters and digits, such as my-shop"
        )
    return name if name[0].isalpha() else f"app-{name}"


def module_of(name: str) -> str:
    """A module's name that hides no other module.

    >>> module_of("my-shop"), module_of("queue"), module_of("class")
    ('my_shop', 'queue_app', 'class_app')
    """
    module = name.replace("-", "_")
    hides = keyword.iskeyword(module) or module in sys.stdlib_module_names or module in _TAKEN
    return f"{module}_app" if hides else module


def create(project: Project, source: Installed) -> None:
    """Write the project; DefinitionError if the folder has files."""
    folder = project.folder
    try:
        _require_empty(folder)
        _write(project, source)
    except OSError as error:
        raise DiskError(
            f"cannot write {error.filename or folder}: {error.strerror}",
            hint="use a folder that you can write",
        ) from None


def _require_empty(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise DefinitionError(f"{folder} is a file", hint="use another name")
    # What an editor, git or a virtual environment keeps there is not in the way.
    others = sorted(path.name for path in folder.glob("*") if not _is_neutral(path))
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        raise DefinitionError(
            f"{folder} is not empty: it has {', '.join(others[:3])}{more}",
            hint="name a new folder: gearshift init NAME",
        )


def _is_neutral(path: Path) -> bool:
    if path.name in (".gitignore", ".github"):
        return False
    return path.name.startswith(".") or (path / "pyvenv.cfg").is_file()


def _write(project: Project, source: Installed) -> None:
    folder, story = project.folder, project.story
    folder.mkdir(parents=True, exist_ok=True)
    modules = [project.module]
    if story is None:
        _fill(project, "app", f"{project.module}.py")
    else:
        modules = _copy(story, folder)
    _fill(project, "test" if story is None else "story_test", f"tests/test_{project.module}.py")
    _fill(project, "gitignore", ".gitignore")
    _fill(project, "settings", "gearshift.toml")
    _fill(project, "workflow", ".github/workflows/test.yml", CI_NOTE=_ci_note(source))
    _fill(
        project,
        "pyproject",
        "pyproject.toml",
        ORIGIN=_origin(source),
        DEPENDENCY=source.requirement(story.extras if story is not None else ()),
        MODULES=", ".join(f'"{module}"' for module in modules),
    )


def _fill(project: Project, template: str, name: str, **words: str) -> None:
    text = (files("gearshift.cli.projects") / "templates" / f"{template}.txt").read_text(encoding="utf-8")
    for word, value in {"NAME": project.name, "MODULE": project.module, **words}.items():
        text = text.replace(f"@{word}@", value)
    target = project.folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def _copy(story: Story, folder: Path) -> list[str]:
    """Copy a story and what the demos share; returns the modules."""
    for path in (*story.folder.iterdir(), *story.shared):
        if path.name == "__pycache__" or path.name.startswith("."):
            continue
        if path.is_dir():
            shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(path, folder / path.name)
    return sorted(path.stem for path in folder.glob("*.py"))


def _origin(source: Installed) -> str:
    if source.is_local:
        return (
            "  # Where this machine installed Gearshift from. For other machines name a place that they reach, such as\n"
            "  # gearshift @ git+https://…"
        )
    return (
        "  # Where Gearshift was installed from."
        if source.url
        else "  # The installed version, or a newer one."
    )


def _ci_note(source: Installed) -> str:
    if source.is_local:
        return (
            "      # pyproject.toml names Gearshift by a path of one machine: name a place that this machine reaches,\n"
            "      # such as a git URL or a wheel's, before the first push."
        )
    return "      # Gearshift comes from where pyproject.toml says."
