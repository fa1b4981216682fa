"""Explains failures of a query or of the user's code in one sentence, with the pipeline, the file and the line.

Spark nests its causes and repeats them over pages.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gearshift.connection import Connection
from gearshift.definitions import Location, Pipeline
from gearshift.errors import ContinuityError, GearshiftError, LoginError, QueryError, TransformError
from gearshift.pipelines.denial import explain_denial
from gearshift.pipelines.records.debezium import MISSING_COLUMN
from gearshift.pipelines.records.writing import INVALID

FINAL = (ContinuityError, LoginError)
"""Failures that no further attempt can avoid: a person has to change something, then start the app again."""
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?P<frames>(?: .*\n)+)(?P<what>\S.*)")
_OURS = f"{Path(__file__).parent.parent}{os.sep}"  # our own frames are not the user's code
# Spark's errors for code that does not match the state in the checkpoint.
_MISFIT = re.compile(
    r"\[(?:STATE_STORE_\w*SCHEMA\w*|STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA)[^\]]*\] ([^\n]+)"
    r"|(There are \[\d+\] sources in the checkpoint offsets[^\n]+)"
)
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


@contextmanager
def calling(pipeline: Pipeline) -> Generator[None]:
    """Report an exception inside this block as the transform's."""
    try:
        yield
    except GearshiftError:
        raise
    except Exception as error:
        where = blame(error, pipeline.transform) or pipeline.defined_at
        raise TransformError(
            f"the transform raised {type(error).__name__}: {first_line(error)}",
            hint="fix the function; gearshift check reports this without starting anything",
            pipeline=pipeline.name,
            file=where.file,
            line=where.line,
        ) from error


def explain(error: BaseException, pipeline: Pipeline, connection: Connection | None = None) -> GearshiftError:
    """An exception of a pipeline's query, with the pipeline, the file and the line."""
    if isinstance(error, GearshiftError):
        return error
    text = str(error)
    denied = None if connection is None else explain_denial(text, pipeline, connection)
    if denied is not None:
        return denied
    where = pipeline.defined_at
    gone = re.search(rf"{MISSING_COLUMN}=(\w+);", text)
    if gone:
        return QueryError(
            f"the source table no longer has a column {gone[1]}",
            hint="make the field Optional or give it a default, then restart the app; no change is lost",
            pipeline=pipeline.name,
            file=where.file,
            line=where.line,
        )
    if misfit := _MISFIT.search(text):
        reason = (misfit[1] or misfit[2]).split(" SQLSTATE")[0]
        return ContinuityError(
            f"the code no longer matches the state in the pipeline's checkpoint: {reason}",
            hint=f"undo the change, or start over with gearshift reset {pipeline.name}",
            pipeline=pipeline.name,
            file=where.file,
            line=where.line,
        )
    raised = list(_TRACEBACK.finditer(text))
    if raised:
        frames = [(frame["file"], int(frame["line"])) for frame in _FRAME.finditer(raised[-1]["frames"])]
        users = [frame for frame in frames if "/pyspark/" not in frame[0] and not frame[0].startswith(_OURS)]
        if users:
            own = [frame for frame in users if "/site-packages/" not in frame[0]]
            where = Location.at(*own[-1]) if own else where
            return TransformError(
                f"a function of the transform raised {raised[-1]['what'].strip()}",
                hint="fix the function, or filter out the rows it cannot handle",
                pipeline=pipeline.name,
                file=where.file,
                line=where.line,
            )
    cause = _innermost(text) or first_line(error)
    invalid = re.search(rf"{INVALID}=(.+?);;", cause)  # not in `text`, which contains the whole plan
    return QueryError(
        f"a row of the result does not fit {pipeline.target.name}: {invalid[1]}"
        if invalid
        else f"the query failed: {cause}",
        hint='fix the transform, or set on_invalid="dead-letter"' if invalid else "see the Spark log",
        pipeline=pipeline.name,
        file=where.file,
        line=where.line,
    )


def _innermost(text: str) -> str | None:
    """The innermost of Spark's nested causes.

    >>> _innermost("Job aborted (localhost executor driver): java.lang.ArithmeticException: / by zero\\n\\tat x")
    '/ by zero'
    """
    raised = re.search(r"\[USER_RAISED_EXCEPTION\] ([^\n]+?)(?: SQLSTATE|\n|$)", text)
    if raised:
        return raised[1]
    causes = re.findall(r"(?:Caused by|executor \w+\)): [\w.$]+(?:Exception|Error): ([^\n]+)", text)
    return causes[-1] if causes else None


def blame(error: BaseException, function: Callable[..., Any]) -> Location | None:
    """The innermost line of the user's code in a traceback.

    Code in the function's own folder is the user's; libraries and Spark are not.
    """
    home = Path(function.__code__.co_filename).parent
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).parent == home]
    return Location.at(own[-1].filename, own[-1].lineno or 0) if own else None


def first_line(error: BaseException) -> str:
    """The first line of an exception's message, without Spark's plans and Java's frames."""
    text = str(error).strip().split("\n", 1)[0]
    return text.split(" SQLSTATE:")[0].rstrip(";") if " SQLSTATE:" in text else text
