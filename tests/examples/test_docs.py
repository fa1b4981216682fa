"""The documentation is tested: its Python runs and has the right types, its commands parse, its links lead somewhere."""

from __future__ import annotations

import ast
import doctest
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest
import typer

import gearshift as gs
from gearshift import testing
from gearshift.cli import app as cli
from gearshift.runner.loading import load_app
from gearshift.settings import Settings, load
from tests.documentation import README, ROOT, blocks, prose, python_of, run_python, shell_lines, spans
from tests.faults.harness.guarantees import table
from tools import measurements, operators, pictures, site, stories, transcripts, tutorial

PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "airflow" / "README.md"],
    key=lambda page: (page.parent != ROOT, page),
)
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
COMMANDS = typer.main.get_command(cli)
TARGETS = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]

each_page = pytest.mark.parametrize("page", PAGES, ids=NAMES)


# Python


WITH_PYTHON = [
    page for page in PAGES if page == README or (page.parent == ROOT / "docs" and blocks(page, "python"))
]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page: Path) -> None:
    assert run_python(page)["app"].graph.app == "smart-meter"


def test_the_python_of_all_pages_has_the_right_types(tmp_path: Path) -> None:
    for page in WITH_PYTHON:
        (tmp_path / f"{page.stem.replace('-', '_').lower()}_page.py").write_text(python_of(page), "utf-8")
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps(
            {
                "extraPaths": [str(ROOT / "src"), str(ROOT / "airflow/src")],
                "pythonVersion": "3.11",
                "reportMissingImports": False,  # Airflow has an environment of its own
            }
        )
    )
    done = subprocess.run(
        [Path(sys.executable).with_name("pyright"), "--project", tmp_path, "--pythonpath", sys.executable],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_python_of_the_concepts_is_that_of_their_apps() -> None:
    apps = "".join(path.read_text("utf-8") for path in (ROOT / "docs/concepts").glob("*.py"))
    for page in (ROOT / "docs/concepts").glob("*.md"):
        for block in blocks(page, "python"):
            assert block in apps, (page.name, block)


@pytest.mark.parametrize("app", sorted((ROOT / "docs/concepts").glob("*.py")), ids=lambda app: app.name)
def test_the_apps_of_the_concepts_are_apps(app: Path) -> None:
    assert load_app(app).graph.topics or load_app(app).graph.captures


def test_the_python_of_other_tools_is_python() -> None:
    found = blocks(ROOT / "docs/coming-from.md", "py")
    assert len(found) == 2
    for block in found:
        ast.parse(block)


def test_the_tutorial_shows_the_app_that_init_makes() -> None:
    app = (ROOT / "src/gearshift/cli/projects/templates/app.txt").read_text("utf-8")
    [shown] = blocks(ROOT / "docs/tutorial.md", "py")
    assert shown in app
    for language, text in tutorial.blocks():
        if language == "diff":
            removed, added = ([line[1:] for line in text.splitlines() if line[0] == sign] for sign in "-+")
            assert "\n".join(removed) in app, text
            app = app.replace("\n".join(removed), "\n".join(added))


# Commands


def follow(words: list[str]) -> tuple[Any, list[str], list[str]]:
    """The command that the words name, with the options it and its groups have, and the words that are left."""
    command, options = COMMANDS, ["--help"]
    rest = list(words)
    while True:
        options += [name for option in command.params for name in (*option.opts, *option.secondary_opts)]
        commands = getattr(command, "commands", None)
        if not commands:
            return command, options, rest
        values = [option.opts for option in command.params if not getattr(option, "is_flag", True)]
        while rest and rest[0].startswith("-"):
            takes_value = any(rest[0] in names for names in values)
            rest = rest[2 if takes_value else 1 :]
        if not rest or rest[0].isupper():
            return command, options, rest
        assert rest[0] in commands, f"unknown command: gearshift {' '.join(words)}"
        command = commands[rest.pop(0)]


@each_page
def test_every_gearshift_command_in_the_prose_exists(page: Path) -> None:
    for words in spans(page, "gearshift"):
        _, options, _ = follow(words)
        for word in words:
            if word.startswith("-"):
                assert word.partition("=")[0] in options, (
                    f"unknown option {word}: gearshift {' '.join(words)}"
                )


@each_page
def test_every_gearshift_command_in_a_block_parses(page: Path) -> None:
    for words in shell_lines(page):
        if words[0] != "gearshift":
            continue
        command, context, rest = COMMANDS, None, words[1:]
        while True:
            try:
                context = command.make_context(command.name, list(rest), parent=context)
            except Exception as error:
                pytest.fail(f"{' '.join(words)}: {error!r}")
            if not getattr(command, "commands", None):
                break
            rest = [*context._protected_args, *context.args]
            assert rest and rest[0] in command.commands, f"unknown command: {' '.join(words)}"
            command, rest = command.commands[rest[0]], rest[1:]


def test_the_page_of_commands_names_every_command() -> None:
    def leaves(command: Any, path: str) -> Iterator[str]:
        below = getattr(command, "commands", None)
        if not below:
            yield path
        for name, each in (below or {}).items():
            yield from leaves(each, f"{path} {name}")

    page = (ROOT / "docs/cli.md").read_text("utf-8")
    missing = [path for path in leaves(COMMANDS, "gearshift") if not re.search(rf"`{path}\b", page)]
    assert not missing


@each_page
def test_every_other_command_in_a_block_is_one(page: Path) -> None:
    for words in shell_lines(page):
        program, line = words[0], " ".join(words)
        if program == "make":
            assert words[1] in TARGETS, line
        elif program in ("pip", "uv"):
            extras = re.findall(r"--extra (\S+)", line) + [
                name for names in re.findall(r"\[([\w,-]+)\]", line) for name in names.split(",")
            ]
            provider = "airflow-provider-gearshift" in words
            assert provider or (extras and set(extras) <= set(EXTRAS)), line
        elif program == "python":
            assert words[1] == "-m" and find_spec(words[2]), line
        elif program == "curl":
            check_curl(page, words)
        elif program == "cd":
            assert f"gearshift init {words[1]}" in page.read_text("utf-8"), line
        else:
            assert program in ("gearshift", "pre-commit", "pytest"), line


def check_curl(page: Path, words: list[str]) -> None:
    """A request goes to a port and a topic that the page declares, with records of the topic's fields."""
    graph = run_python(page)["app"].graph
    [url] = [word for word in words if word.startswith("http://")]
    port, _, name = url.removeprefix("http://127.0.0.1:").partition("/topics/")
    assert int(port) in {each.port for each in graph.http_sources.values()}
    records = json.loads(words[words.index("--json") + 1])
    fields = set(graph.topics[name].value.__dataclass_fields__)
    assert records and all(set(record) == fields for record in records)


@each_page
def test_every_make_target_in_the_prose_exists(page: Path) -> None:
    for words in spans(page, "make"):
        assert words[0] in TARGETS, words


def test_what_the_workflow_and_the_hooks_run_exists() -> None:
    workflow = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    assert (
        set(re.findall(r"run: make (\S+)", workflow))
        == {"check", "docs", "test", "test-cluster"}
        <= set(TARGETS)
    )
    hooks = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    assert "://" not in hooks
    for program in re.findall(r"entry: \.venv/bin/(\S+)", hooks):
        assert Path(sys.executable).with_name(program).exists(), program


@each_page
def test_every_line_of_a_file_that_is_shown_is_there(page: Path) -> None:
    for name, path, line in re.findall(
        r"^(\w+) not in .* (\S+\.py):(\d+)$", page.read_text("utf-8"), re.MULTILINE
    ):
        places = (page.parent / path, ROOT / path, ROOT / "src/gearshift/cli/projects/templates/app.txt")
        file = next(place for place in places if place.exists())
        shown = file.read_text("utf-8").splitlines()[int(line) - 1 :]
        assert shown[0].startswith(("@app.pipeline(", f"def {name}(")), (path, line)
        assert f"def {name}(" in "\n".join(shown[:3]), (path, line)


@each_page
def test_every_module_that_is_run_exists(page: Path) -> None:
    for module in re.findall(r"python -m (gearshift[\w.]*)", page.read_text("utf-8")):
        assert find_spec(module), module


@each_page
def test_a_block_says_what_it_is(page: Path) -> None:
    languages = re.findall(r"^```(\S*)\n.*?^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    more = {"airflow": {"", "json"}, "coming-from": {"py", "sql", "java"}, "tutorial": {"py", "diff"}}
    allowed = {"python", "shell", "text", "toml"} | more.get(page.stem, more.get(page.parent.name, set()))
    assert set(languages) <= allowed


# Settings, links, promises


@each_page
def test_the_settings_of_a_page_are_settings(page: Path, tmp_path: Path) -> None:
    for text in blocks(page, "toml"):
        (tmp_path / "gearshift.toml").write_text(text, "utf-8")
        for profile in (None, *tomllib.loads(text).get("profile", {})):
            assert load({"profile": profile}, folder=tmp_path, environ={}).model_fields_set


def test_the_page_of_settings_names_every_setting() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/your-own-cluster.md").read_text("utf-8"), re.MULTILINE)
    assert rows == list(Settings.model_fields)


@each_page
def test_the_variables_of_a_page_are_settings(page: Path) -> None:
    for variable in re.findall(r"GEARSHIFT_([A-Z][A-Z_]*)", page.read_text("utf-8")):
        known = variable.partition("__")[0].lower() in Settings.model_fields
        elsewhere = {"COMMAND": "airflow/README.md", "STORY_DATA": "docs/stories.md"}
        assert known or page == ROOT / elsewhere.get(variable, ""), variable


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as hosts of repositories make them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        assert "://" not in link, f"{link} needs the network"
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_and_every_decision_is_in_its_index() -> None:
    for folder in (ROOT / "docs", ROOT / "docs" / "concepts", ROOT / "docs" / "decisions"):
        index = (folder / "README.md").read_text("utf-8")
        missing = [page.name for page in folder.glob("*.md") if f"({page.name})" not in index]
        assert missing == ["README.md"]


def test_the_guarantees_are_those_that_the_harness_checks() -> None:
    assert table() in (ROOT / "docs/guarantees.md").read_text("utf-8")


# Generated pages and pictures, and the site


def test_the_page_of_stories_says_what_the_stories_say() -> None:
    written = (ROOT / "docs/stories.md").read_text("utf-8")
    assert written == stories.generate(), "run: .venv/bin/python tools/stories.py --write"


def test_the_pictures_are_drawn_from_their_numbers() -> None:
    for name, drawn in pictures.pictures().items():
        written = (ROOT / "docs/pictures" / name).read_text("utf-8")
        assert written == drawn, "run: .venv/bin/python tools/pictures.py"
        ElementTree.fromstring(written)
        assert "prefers-color-scheme: dark" in written


@each_page
def test_every_picture_is_described(page: Path) -> None:
    for description, _ in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", prose(page)):
        assert len(description.split()) > 5, "say what can be seen, for readers who cannot see it"


def test_the_site_has_a_place_for_every_page() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]
    pages = [page for page in PAGES if page.parent.name != "decisions" or page.name == "README.md"]
    for page in pages:
        name = page.relative_to(ROOT).as_posix()
        place = site.OUTSIDE.get(name) or name.removeprefix("docs/")
        assert f"- {place}\n" in navigation, place
    for name in site.reference():
        assert f"- reference/{name}.md\n" in navigation, name


def test_the_reference_has_every_public_name() -> None:
    pages = "".join(site.reference().values())
    exported = gs.__all__ + [f"destinations.{name}" for name in gs.destinations.__all__]
    exported += [f"testing.{name}" for name in testing.__all__]
    elsewhere = {"__version__", "destinations", *vars(gs.errors)}
    missing = [name for name in exported if f"::: gearshift.{name}\n" not in pages and name not in elsewhere]
    assert not missing


@pytest.mark.parametrize(
    "tool",
    [measurements, operators, pictures, site, stories, transcripts, tutorial],
    ids=lambda tool: tool.__name__,
)
def test_the_examples_in_the_tools_are_right(tool: ModuleType) -> None:
    assert doctest.testmod(tool).failed == 0
