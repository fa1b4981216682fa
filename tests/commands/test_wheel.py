"""The wheel of this repository works in an empty environment, without the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from gearshift.cli.projects.stories import find_stories

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, since a build leaves files in its tree."""
    folder = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for name in ("src", "examples"):
        unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", ".gearshift")
        shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
    leftover = folder / "build" / "lib" / "gearshift" / "removed.py"
    leftover.parent.mkdir(parents=True)
    leftover.touch()
    out = tmp_path_factory.mktemp("dist")
    run(
        UV,
        "build",
        "--wheel",
        "--offline",
        "--no-build-isolation",
        "--python",
        sys.executable,
        "-o",
        out,
        cwd=folder,
    )
    [built] = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def gearshift(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command in an environment that has the wheel; what it depends on comes from this environment."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    run(UV, "venv", "--offline", "--python", sys.executable, folder, cwd=folder.parent)
    python = folder / "bin" / "python"
    run(UV, "pip", "install", "--offline", "--no-deps", "--python", python, wheel, cwd=folder.parent)
    [packages] = folder.glob("lib/python*/site-packages")
    # As a path, so that its own .pth files, such as that of the editable Gearshift, do not count.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "gearshift"


def run(*words: str | Path, cwd: Path) -> str:
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("GEARSHIFT_", "PYTHONPATH"))
    }
    done = subprocess.run(
        words, cwd=cwd, env=environ, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_has_the_stories_the_templates_and_no_leftovers(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    for story in find_stories().values():
        assert f"gearshift/stories/{story.name}/{story.name}.py" in names
    assert "gearshift/stories/demos.py" in names and "gearshift/cli/projects/templates/app.txt" in names
    pages = {
        f"gearshift/console/pages/{page.name}" for page in (ROOT / "src/gearshift/console/pages").iterdir()
    }
    assert pages <= set(names)
    assert "gearshift/removed.py" not in names  # of an earlier build in the same tree
    assert not [name for name in names if "__pycache__" in name or ".gearshift/" in name or "/tests/" in name]


def test_its_command_lists_the_stories(gearshift: Path, tmp_path: Path) -> None:
    shown = run(gearshift, "demo", "--list", cwd=tmp_path)
    assert all(name in shown for name in find_stories())
    where = run(
        gearshift.with_name("python"), "-c", "import gearshift; print(gearshift.__file__)", cwd=tmp_path
    )
    assert Path(where.strip()).is_relative_to(gearshift.parents[1])


def test_its_projects_install_it_from_the_same_wheel(gearshift: Path, wheel: Path, tmp_path: Path) -> None:
    run(gearshift, "init", "shop", cwd=tmp_path)
    project = tomllib.loads((tmp_path / "shop/pyproject.toml").read_text())["project"]
    assert project["dependencies"] == [f"gearshift @ {wheel.as_uri()}"]


def test_its_projects_and_stories_are_checked_by_spark(gearshift: Path, tmp_path: Path) -> None:
    run(gearshift, "init", "shop", cwd=tmp_path)
    assert "large_orders" in run(gearshift, "check", "shop.py", cwd=tmp_path / "shop")
    run(gearshift, "init", "meters", "--story", "smart_meter", cwd=tmp_path)
    assert "load_alerts" in run(gearshift, "graph", "smart_meter.py", cwd=tmp_path / "meters")
