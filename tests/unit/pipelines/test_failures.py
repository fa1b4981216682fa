"""Spark's nested causes are explained in one sentence, with the user's line if there is one."""

from __future__ import annotations

from gearshift.definitions import Location, Pipeline, Table
from gearshift.errors import QueryError, TransformError
from gearshift.freshness import Freshness, Gear
from gearshift.pipelines.failures import explain
from gearshift.tables.write import parquet_files as files

HERE = Location("app.py", 3)
PIPELINE = Pipeline(
    name="pipe",
    transform=lambda frame: frame,
    sources={},
    target=Table(name="t", defined_at=HERE),
    freshness=Freshness(1, "second"),
    gear=Gear.REAL_TIME,
    defined_at=HERE,
)

UDF = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: Task 0 \
in stage 3.0 failed 1 times, most recent failure: Lost task 0.0 in stage 3.0 (TID 5) (localhost executor driver): \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/story/app.py", line 12, in ratio
    return 1 / value
           ~~^~~~~~~
  File "/opt/lib/site-packages/numbers/core.py", line 80, in divide
    raise ZeroDivisionError("division by zero")
ZeroDivisionError: division by zero

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
"""


def test_a_function_that_raises_in_a_worker_is_told_with_its_own_line() -> None:
    error = explain(RuntimeError(UDF), PIPELINE)
    assert isinstance(error, TransformError)
    assert (error.file, error.line, error.pipeline) == ("/opt/story/app.py", 12, "pipe")
    assert "ZeroDivisionError: division by zero" in error.what


def test_a_row_that_the_target_cannot_take_is_told_by_its_reason() -> None:
    text = "[USER_RAISED_EXCEPTION] GEARSHIFT_INVALID_RESULT=required field load_kw is null;; SQLSTATE: P0001"
    error = explain(RuntimeError(text), PIPELINE)
    assert isinstance(error, QueryError)
    assert error.what == "a row of the result does not fit t: required field load_kw is null"
    assert error.hint == 'fix the transform, or set on_invalid="dead-letter"'
    assert (error.file, error.line) == ("app.py", 3)


def test_the_innermost_cause_is_what_is_told() -> None:
    text = "Job aborted\nCaused by: java.lang.RuntimeException: outer\nCaused by: java.io.IOException: disk is full\n"
    assert explain(RuntimeError(text), PIPELINE).what == "the query failed: disk is full"


def test_an_error_of_ours_stays_what_it_is() -> None:
    ours = QueryError("it ended")
    assert explain(ours, PIPELINE) is ours


def test_a_plan_that_could_name_a_missing_column_is_none_that_does() -> None:
    plan = "Project [concat(GEARSHIFT_MISSING_COLUMN=, _value#359.missing, ;)]"
    stopped = explain(
        RuntimeError(f"[USER_RAISED_EXCEPTION] GEARSHIFT_BEGINS_AGAIN=7; SQLSTATE: P0001\n{plan}"), PIPELINE
    )
    assert "GEARSHIFT_BEGINS_AGAIN=7;" in str(stopped)
    gone = explain(
        RuntimeError(f"[USER_RAISED_EXCEPTION] GEARSHIFT_MISSING_COLUMN=note; SQLSTATE: P0001\n{plan}"),
        PIPELINE,
    )
    assert gone.what == "the source table no longer has a column note"


def test_a_way_through_this_package_is_not_blamed_on_a_function_of_the_transform() -> None:
    ours = files.__file__
    text = (
        "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred: Traceback (most recent call last):\n"
        '  File "/opt/lib/site-packages/pyspark/sql/utils.py", line 71, in call\n    self.func(df, batch_id)\n'
        f'  File "{ours}", line 70, in write\n    writer.parquet(path)\n'
        "py4j.protocol.Py4JJavaError: An error occurred while calling o1.parquet.\n"
        ": org.apache.spark.SparkException: Job aborted.\n"
        "Caused by: java.nio.file.InvalidPathException: Nul character not allowed\n\tat java.base"
    )
    error = explain(RuntimeError(text), PIPELINE)
    assert not isinstance(error, TransformError)
    assert error.what == "the query failed: Nul character not allowed"
