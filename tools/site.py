"""What MkDocs needs beyond docs/: the pages of the repository's root, the reference, and a check of the built pages.

MkDocs calls the functions named `on_…` (`hooks` in mkdocs.yml).
"""

from __future__ import annotations

import ast
import os
import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

# MkDocs is imported where it calls: the tests read the rest of this module without it.

ROOT = Path(__file__).resolve().parents[1]

# Pages outside docs/, by their path in the repository: their place on the site.
OUTSIDE = {
    "README.md": "project/readme.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changelog.md",
    "airflow/README.md": "project/airflow.md",
}

# The page of the reference for each module that a public name comes from; all other names are definitions.
_PAGES = {
    "gearshift.app": "app",
    "gearshift.topics": "app",
    "gearshift.stack": "app",
    "gearshift.connection": "app",
}
_PAGES |= {"gearshift.record": "records", "gearshift.schemas": "records", "gearshift.errors": "errors"}
_TITLES = {
    "app": "App, producer and connection",
    "definitions": "Definitions",
    "records": "Records and their types",
    "destinations": "Destinations",
    "errors": "Errors",
    "testing": "gearshift.testing",
}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the root and the reference."""
    from mkdocs.structure.files import File

    for source, place in OUTSIDE.items():
        text = (ROOT / source).read_text("utf-8")
        files.append(File.generated(config, place, content=translated(text, source, place)))
    for name, text in reference().items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Let the links of a page that leave docs/ lead to their place on the site."""
    place = page.file.src_uri
    return markdown if page.file.generated_by else translated(markdown, f"docs/{place}", place)


def on_post_build(config: Any) -> None:
    """Fail if the site would request anything from another host."""
    from mkdocs.exceptions import PluginError

    folder = Path(config["site_dir"])
    found = {
        f"{path.relative_to(folder)}: {url}"
        for suffix, requests in ((".html", requested_by_page), (".css", requested_by_styles))
        for path in folder.rglob(f"*{suffix}")
        for url in requests(path.read_text("utf-8"))
    }
    if found:
        raise PluginError("these would be requested from another host: " + ", ".join(sorted(found)))


def requested_by_page(html: str) -> list[str]:
    """What a browser loads from another host when it shows a page; a link is loaded only when it is followed.

    >>> requested_by_page('<a href="https://a.example"><img src="//b.example/x.png"><link href="https://c.example/y">')
    ['//b.example/x.png', 'https://c.example/y']
    """
    page = _Requests()
    page.feed(html)
    return page.found


def requested_by_styles(css: str) -> list[str]:
    """What a style sheet loads from another host.

    >>> requested_by_styles('a{background:url("data:image/svg+xml,<svg/>")} @import url(https://a.example/f.css)')
    ['https://a.example/f.css']
    """
    return re.findall(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""", css)


def translated(text: str, source: str, place: str) -> str:
    """Rewrite the links of a page from paths in the repository to paths on the site.

    >>> translated("see [the map](../ARCHITECTURE.md#tests)", "docs/README.md", "README.md")
    'see [the map](project/architecture.md#tests)'
    >>> translated("[tables](docs/tables.md)", "README.md", "project/readme.md")
    '[tables](../tables.md)'
    """

    def link(found: re.Match[str]) -> str:
        path, hash_, anchor = found[1].partition("#")
        if not path or "://" in path:
            return found[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        on_site = OUTSIDE.get(target) or (
            target.removeprefix("docs/") if target.startswith("docs/") else None
        )
        if on_site is None:
            return found[0]
        return f"]({os.path.relpath(on_site, posixpath.dirname(place) or '.')}{hash_}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", link, text)


def reference() -> dict[str, str]:
    """The pages of the reference, from the public names of the package."""
    pages: dict[str, list[str]] = {name: [] for name in _TITLES}
    for name, module in public_names(ROOT / "src/gearshift/__init__.py").items():
        if name not in ("destinations", "errors", "__version__"):
            pages[_PAGES.get(module, "definitions")].append(f"gearshift.{name}")
    modules = {"destinations": "gearshift.destinations", "testing": "gearshift.testing"}
    pages["errors"] = ["gearshift.errors"]
    pages |= {
        page: [
            f"{module}.{name}" for name in public_names(ROOT / f"src/{module.replace('.', '/')}/__init__.py")
        ]
        for page, module in modules.items()
        if (ROOT / f"src/{module.replace('.', '/')}").exists()
    }
    return {
        page: "\n\n".join([f"# {_TITLES[page]}", *(_directive(name) for name in names)]) + "\n"
        for page, names in pages.items()
    }


def _directive(name: str) -> str:
    """What writes the reference of a name; the methods of App are in two classes."""
    more = "\n    options:\n      inherited_members: true" if name == "gearshift.App" else ""
    return f"::: {name}{more}"


def public_names(file: Path) -> dict[str, str]:
    """The names in `__all__` of a module, in order, each with the module that it is imported from."""
    tree = ast.parse(file.read_text("utf-8"))
    origin = {
        alias.asname or alias.name: node.module or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__all__":
            return {name: origin.get(name, "") for name in ast.literal_eval(node.value)}
    return {}


class _Requests(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            loads = name in ("src", "srcset") or (name == "href" and tag == "link")
            if loads and re.match(r"(https?:)?//", value or "") and ("rel", "canonical") not in attrs:
                self.found.append(value or "")
            if name == "style":
                self.found += requested_by_styles(value or "")
