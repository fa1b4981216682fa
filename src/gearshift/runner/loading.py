"""Loads the App from a user's file."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path

from gearshift.app import App
from gearshift.errors import AppLoadError, GearshiftError


def load_app(file: Path) -> App:
    """Import a file and return its only App; modules in its folder can be imported, as with `python FILE`."""
    if not file.is_file():
        raise AppLoadError("no such file", hint="name the Python file that declares the App", file=str(file))
    sys.path.insert(0, str(file.parent.absolute()))
    # A file may be called queue.py: the module already imported under that name stays in place.
    known = sys.modules.get(file.stem)
    is_ours = known is None or getattr(known, "__file__", None) == str(file.absolute())
    name = file.stem if is_ours else f"{file.stem}_app"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise AppLoadError(
            "not a Python file", hint="name the .py file that declares the App", file=str(file)
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up by name
    try:
        spec.loader.exec_module(module)
    except GearshiftError:
        raise
    except SyntaxError as error:
        # The error may be in a module that the file imports.
        where = str(file) if error.filename in (None, str(file.absolute())) else error.filename
        raise AppLoadError(f"{error.msg}", hint="fix the file", file=where, line=error.lineno) from error
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename) == file.absolute()]
        line = own[-1].lineno if own else None
        what, hint = f"{type(error).__name__}: {error}", "fix the file"
        if _is_too_soon(error, Path(frames[-1].filename)):
            what, hint = "a column is built before Spark starts", "build it inside the pipeline's function"
            if any(Path(frame.filename).name == "udf.py" for frame in frames):
                what = "the type of a UDF is a text, which needs a started Spark"
                hint = 'use a type such as DoubleType() instead of "double"'
        raise AppLoadError(what, hint=hint, file=str(file), line=line) from error
    apps = {id(value): value for value in vars(module).values() if isinstance(value, App)}
    if len(apps) != 1:
        found = "no App" if not apps else f"{len(apps)} Apps"
        raise AppLoadError(f"{found} in the file", hint='declare one: app = gs.App("name")', file=str(file))
    return next(iter(apps.values()))


def _is_too_soon(error: Exception, raised_in: Path) -> bool:
    """Whether PySpark found no session, for which it may raise a bare AssertionError."""
    missed = isinstance(error, AssertionError) or "SESSION_OR_CONTEXT_NOT_EXISTS" in str(error)
    return missed and "pyspark" in raised_in.parts
