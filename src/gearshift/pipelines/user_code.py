"""The boundary around a user's functions: their exceptions come out with the pipeline, the file and the line."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gearshift.definitions import Location, Pipeline
from gearshift.errors import GearshiftError, TransformError


@contextmanager
def calling(pipeline: Pipeline) -> Generator[None]:
    """Run a pipeline's transform so that what it raises is shown as the user's own."""
    try:
        yield
    except GearshiftError:
        raise
    except Exception as error:
        where = blame(error, pipeline.transform) or pipeline.defined_at
        raise TransformError(
            f"the transform raised {type(error).__name__}: {first_line(error)}",
            hint="mend the function; gearshift check tells without starting anything",
            pipeline=pipeline.name,
            file=where.file,
            line=where.line,
        ) from error


def blame(error: BaseException, function: Callable[..., Any]) -> Location | None:
    """The innermost line of the user's code in a traceback.

    Code in the function's own folder is the user's; libraries and Spark are not.
    """
    home = Path(function.__code__.co_filename).parent
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).parent == home]
    return Location.at(own[-1].filename, own[-1].lineno or 0) if own else None


def first_line(error: BaseException) -> str:
    """What an exception says, without Spark's plans and Java's frames."""
    text = str(error).strip().split("\n", 1)[0]
    return text.split(" SQLSTATE:")[0].rstrip(";") if " SQLSTATE:" in text else text
