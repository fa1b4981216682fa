"""ARCHITECTURE.md is the map: it names every module, and everything it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([^`|]+)` \|[^|]*\|([^|]*)\|$", re.MULTILINE)


def named(package: str) -> set[str]:
    """The modules that the table under the package's heading names, as paths below the package."""
    [section] = re.findall(rf"^## `{re.escape(package)}`\n(.*?)^## ", f"{MAP}\n## ", re.MULTILINE | re.DOTALL)
    return {
        f"{folder.removeprefix('.').removesuffix('/')}/{module}".removeprefix("/")
        for folder, modules in ROW.findall(section)
        for module in re.findall(r"`([^`]+)`", modules)
    }


def present(package: str) -> set[str]:
    """The modules that exist, written as the map does: Python without its suffix, Java with it."""
    folder = ROOT / package
    python = {path.relative_to(folder).with_suffix("") for path in folder.rglob("*.py")}
    java = {path.relative_to(folder) for path in folder.rglob("*.java")}
    return {path.as_posix() for path in python | java if path.name != "__init__"}


@pytest.mark.parametrize("package", ["src/gearshift", "airflow/src/airflow_provider_gearshift"])
def test_the_map_names_every_module_and_no_other(package: str) -> None:
    missing, surplus = present(package) - named(package), named(package) - present(package)
    assert not missing | surplus, "".join(
        f"\n{title} in ARCHITECTURE.md, {package}:" + "".join(f"\n  {name}" for name in sorted(names))
        for title, names in (("missing", missing), ("surplus", surplus))
        if names
    )


def test_every_file_that_the_map_and_the_documentation_name_exists() -> None:
    pages = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    gone = [
        f"{page.relative_to(ROOT)}: {path}"
        for page in pages
        for path in re.findall(r"`([\w.]+/[\w./]*\.(?:py|java|md|toml|json))`", page.read_text("utf-8"))
        if not any((base / path).exists() for base in (ROOT, ROOT / "src/gearshift"))
    ]
    assert not gone, "\n" + "\n".join(gone)
