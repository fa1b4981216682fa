"""The user's Python on its way to the executors: the app's functions, the modules next to it, and the Python itself."""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

from pyspark import SparkFiles, cloudpickle
from pyspark.sql import SparkSession

from gearshift.definitions import Graph
from gearshift.spark.masters import is_local, on_one_machine

_PYTHON = "spark.pyspark.python"
_INSTALLED = ("site-packages", "dist-packages")


def choose_python(master: str, configuration: Mapping[str, str]) -> None:
    """Run UDFs in the Python of the settings, or on this machine in this one with its packages.

    PySpark takes it from the environment: Spark reads the setting only where it starts the driver itself.
    """
    if _PYTHON in configuration:
        os.environ["PYSPARK_PYTHON"] = configuration[_PYTHON]
    elif on_one_machine(master):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def pickle_app(graph: Graph) -> None:
    """Pickle the functions of the app's file by value: Python workers cannot import it."""
    for module in _modules(graph):
        if module.__name__ == "__main__":  # pickled by value in any case
            continue
        cloudpickle.register_pickle_by_value(module)  # pyright: ignore[reportUnknownMemberType]


def send_siblings(spark: SparkSession, graph: Graph) -> None:
    """Send the executors the modules that the app's file can import from its folder."""
    if is_local(spark.sparkContext.master or ""):
        return
    found = siblings(graph)
    if not found:
        return
    digest = hashlib.sha256()
    for name in sorted(found):
        digest.update(name.encode() + b"\0" + found[name].read_bytes() + b"\0")
    # Executors fetch it from here as long as Spark runs; Spark removes the folder when it stops.
    folder = Path(SparkFiles.getRootDirectory()) / "sent"
    folder.mkdir(exist_ok=True)
    path = folder / f"app-{digest.hexdigest()[:12]}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(found):
            archive.write(found[name], name)
    spark.sparkContext.addPyFile(str(path))


def siblings(graph: Graph) -> dict[str, Path]:
    """The modules that the app's file can import from its folder, by their paths there."""
    return {name: file for module in _modules(graph) for name, file in _siblings(module)}


def _modules(graph: Graph) -> list[ModuleType]:
    """The modules whose functions are pipelines."""
    names = {pipeline.transform.__module__ for pipeline in graph.pipelines.values()}
    return [sys.modules[name] for name in sorted(names & sys.modules.keys())]


def _siblings(module: ModuleType) -> Iterator[tuple[str, Path]]:
    """The modules and packages in a module's folder, or where its package is, with their paths there.

    What is installed is part of the executors' own Python.
    """
    file = getattr(module, "__file__", None)
    if file is None or any(part in _INSTALLED for part in Path(file).parts):
        return
    own = Path(file).absolute()
    name = module.__spec__.name if module.__spec__ else module.__name__
    folder = own.parents[name.count(".")]
    if "." in name:
        yield from _package(folder / name.partition(".")[0], folder)
        return
    for path in sorted(folder.iterdir()):
        if path.suffix == ".py" and path != own:
            yield path.name, path
        elif (path / "__init__.py").is_file():
            yield from _package(path, folder)


def _package(package: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(package.rglob("*.py")):
        yield path.relative_to(folder).as_posix(), path
