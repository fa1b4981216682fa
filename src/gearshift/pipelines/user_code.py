"""The boundary around a user's functions: their exceptions come out with the pipeline, the file and the line."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gearshift.definitions import Pipeline
from gearshift.errors import GearshiftError, TransformError


@contextmanager
def calling(pipeline: Pipeline) -> Generator[None]:
    """Run a pipeline's transform so that what it raises is shown as the user's own."""
    try:
        yield
    except GearshiftError:
        raise
    except Exception as error:
        file, line = blame(error, pipeline.transform)
        raise TransformError(
            f"the transform raised {type(error).__name__}: {first_line(error)}",
            hint="mend the function; gearshift check tells without starting anything",
            pipeline=pipeline.name,
            file=file or pipeline.defined_at.file,
            line=line or pipeline.defined_at.line,
        ) from error


def blame(error: BaseException, function: Callable[..., Any]) -> tuple[str | None, int | None]:
    """The innermost line of the user's code in a traceback.

    Code in the function's own folder is the user's; libraries and Spark are not.
    """
    home = Path(function.__code__.co_filename).parent
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).parent == home]
    return (_short(own[-1].filename), own[-1].lineno) if own else (None, None)


def first_line(error: BaseException) -> str:
    """What an exception says, without Spark's plans and Java's frames."""
    text = str(error).strip().split("\n", 1)[0]
    return text.split(" SQLSTATE:")[0].rstrip(";") if " SQLSTATE:" in text else text


def _short(file: str) -> str:
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file
