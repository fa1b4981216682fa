"""Loads the modules of the example stories: each story's own, although many have a module of the same name."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from gearshift.app import App

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(story: str, module: str) -> ModuleType:
    """A module of a story, such as `load("live_cricket", "truth")`; loaded once, under a name of its own.

    What it imports by a bare name comes from the same story, also when another story's module of that name is loaded.
    """
    file = EXAMPLES / story / f"{module}.py"
    name = f"story_{story}_{module}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise FileNotFoundError(f"no module {module} in {file.parent}")
    loaded = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with _siblings(story):
            spec.loader.exec_module(loaded)
    except BaseException:
        del sys.modules[name]
        raise
    return loaded


def app(story: str) -> App:
    """The App of a story, made of the same modules as `load` gives."""
    [found] = {value for value in vars(load(story, story)).values() if isinstance(value, App)}
    return found


def file(story: str) -> Path:
    """The file of a story's App."""
    return EXAMPLES / story / f"{story}.py"


class _Siblings(MetaPathFinder, Loader):
    """Finds the modules of one story, by their bare names."""

    def __init__(self, story: str) -> None:
        self.story = story
        self.names = {path.stem for path in (EXAMPLES / story).glob("*.py")}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname in self.names else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return load(self.story, spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """It was executed by `load`."""


@contextmanager
def _siblings(story: str) -> Iterator[None]:
    """Bare names are this story's modules; afterwards they are again what they were."""
    finder = _Siblings(story)
    hidden = {name: sys.modules.pop(name) for name in finder.names if name in sys.modules}
    sys.meta_path.insert(0, finder)
    # What the stories share, such as demos.py.
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield
    finally:
        sys.path.remove(str(EXAMPLES))
        sys.meta_path.remove(finder)
        for name in finder.names:
            sys.modules.pop(name, None)
        sys.modules.update(hidden)
