"""What a failed query says, in a sentence: Spark nests its causes and repeats them over pages."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gearshift.definitions import Location, Pipeline
from gearshift.errors import ContinuityError, GearshiftError, QueryError, TransformError
from gearshift.pipelines.changes import MISSING_COLUMN
from gearshift.pipelines.user_code import first_line
from gearshift.pipelines.writing import NULL_FIELD

_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?P<frames>(?: .*\n)+)(?P<what>\S.*)")
_NULL_WITHIN = re.compile(r"\[AVRO_CANNOT_WRITE_NULL_FIELD\][^`]*`([^`]+)`")  # of a struct within the value
_OURS = (
    f"{Path(__file__).parent.parent}{os.sep}"  # a batch's own way through this package is no user's function
)
# What Spark says of code that does not fit the state in the checkpoint.
_MISFIT = re.compile(
    r"\[(?:STATE_STORE_\w*SCHEMA\w*|STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA)[^\]]*\] ([^\n]+)"
    r"|(There are \[\d+\] sources in the checkpoint offsets[^\n]+)"
)
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


def explain(error: BaseException, pipeline: Pipeline) -> GearshiftError:
    """An exception of a pipeline's query, with the pipeline and the place."""
    if isinstance(error, GearshiftError):
        return error
    text = str(error)
    where = pipeline.defined_at
    gone = re.search(rf"{MISSING_COLUMN}=(\w+);", text)
    if gone:
        return QueryError(
            f"the source table has no column {gone[1]} any more",
            hint="make the field Optional or give it a default, and start the app again: nothing is lost",
            pipeline=pipeline.name,
            file=where.file,
            line=where.line,
        )
    if misfit := _MISFIT.search(text):
        said = (misfit[1] or misfit[2]).split(" SQLSTATE")[0]
        return ContinuityError(
            f"the code no longer fits the state in the pipeline's checkpoint: {said}",
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
                hint="fix the function, or filter out what it cannot take",
                pipeline=pipeline.name,
                file=where.file,
                line=where.line,
            )
    cause = _innermost(text) or first_line(error)
    null = re.search(rf"{NULL_FIELD}=([^;]+);", cause) or _NULL_WITHIN.search(cause)
    return QueryError(
        f"the transform gave no value for the required field {null[1]}"
        if null
        else f"the query failed: {cause}",
        hint="fill or filter it, or make the field Optional" if null else "see the Spark log",
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
