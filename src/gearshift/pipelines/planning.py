"""What Spark would do with a frame, found by planning it: its operators, and the line that brought each in."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # pyright: ignore[reportMissingTypeStubs]
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from gearshift.definitions import Location, Pipeline, Topic

_ALIASES = {"ShuffleExchangeExec": "Exchange", "BroadcastExchangeExec": "BroadcastExchange"}
_SOURCE = "StreamingRelation"
_ADAPTIVE = "AdaptiveSparkPlan"  # explaining wraps a plan in it; a started stream is never planned so
_STATEFUL = frozenset(
    {
        "GlobalLimit",
        "FlatMapGroupsInPandasWithState",
        "FlatMapGroupsWithState",
        "TransformWithState",
        "TransformWithStateInPySpark",
    }
)
_AGGREGATES = frozenset({"HashAggregate", "ObjectHashAggregate", "SortAggregate"})


@dataclass(frozen=True, slots=True)
class Made:
    """A frame that one line of the user's code made."""

    frame: DataFrame
    at: Location


def streaming_operators(spark: SparkSession, frame: DataFrame) -> list[str]:
    """The operators between the streams and the result; the static sides of joins are not among them."""
    nodes = _tree(_explain(spark, frame))
    return [
        name
        for index, (_, name) in enumerate(nodes)
        if name not in (_SOURCE, _ADAPTIVE)
        and _has_stream_below(nodes, index)
        and not _sorts_for_aggregate(nodes, index)
    ]


def real_time_operators(spark: SparkSession) -> frozenset[str]:
    """The operators Spark allows in real-time, from Spark's own list."""
    package: Any = _jvm(spark).org.apache.spark.sql.execution.streaming.runtime
    module = _module(package, "RealTimeModeAllowlist$")
    field = module.getClass().getDeclaredField("allowedOperators")
    field.setAccessible(True)
    names: list[str] = field.get(module).mkString(",").split(",")
    simple = (name.rsplit(".", 1)[-1].removesuffix("$") for name in names)
    allowed = frozenset(_ALIASES.get(name, name.removesuffix("Exec")) for name in simple)
    # Planned for real-time, every kind of aggregation becomes this one operator.
    return allowed | _AGGREGATES if "StatefulStreamlineAggregate" in allowed else allowed


def output_mode(spark: SparkSession, frame: DataFrame, pipeline: Pipeline) -> str:
    """The output mode of a pipeline, the same in every gear.

    Topics take updates, the only mode real-time has, and so do tables with a key, where a row replaces the one
    before. What Spark refuses to run so (a join of two streams) can never run in real-time, and is appended.
    A table without a key takes only rows that are final.
    """
    target = pipeline.target
    if (isinstance(target, Topic) or target.key) and refusal(spark, frame, "update") is None:
        return "update"
    return "append"


def refusal(spark: SparkSession, frame: DataFrame, mode: str, *, real_time: bool = False) -> str | None:
    """Why Spark would not start this frame as a stream, in its words; None if it would."""
    package: Any = _jvm(spark).org.apache.spark.sql.catalyst.analysis
    checker = _module(package, "UnsupportedOperationChecker$")
    modes: Any = _jvm(spark).org.apache.spark.sql.streaming.OutputMode
    plan = _java(frame).queryExecution().analyzed()
    chosen = modes.Update() if mode == "update" else modes.Append()
    try:
        if real_time:
            checker.checkAdditionalRealTimeModeConstraints(plan, chosen)
        else:
            checker.checkForStreaming(plan, chosen)
    except (AnalysisException, Py4JJavaError) as error:
        return _sentence(error)
    return None


def trace(pipeline: Pipeline, frames: Mapping[str, Any]) -> tuple[Any, list[Made]]:
    """Call a pipeline's transform and note every frame its lines make, in order."""
    made: list[Made] = []
    home = Path(pipeline.transform.__code__.co_filename).parent

    def note(frame: Any, event: str, result: Any) -> None:
        if event != "return" or not isinstance(result, DataFrame):
            return
        caller = frame.f_back
        if caller is not None and Path(caller.f_code.co_filename).parent == home:
            made.append(Made(result, Location.at(caller.f_code.co_filename, caller.f_lineno)))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        return pipeline.transform(**frames), made
    finally:
        sys.setprofile(before)


def blame(made: list[Made], is_guilty: Callable[[DataFrame], bool]) -> Location | None:
    """The line that made the first guilty frame."""
    return next((entry.at for entry in made if is_guilty(entry.frame)), None)


def shuffles(spark: SparkSession, frame: DataFrame) -> int:
    """How many times the frame is shuffled: each holds tasks of its own in real-time."""
    return sum(name == "Exchange" for name in streaming_operators(spark, frame))


def count(frame: DataFrame, operator: str) -> int:
    """How many of an operator the user's lines ask for, before Spark improves on them."""
    text = str(_java(frame).queryExecution().analyzed().toString())
    text = re.sub(r"(?m)^([ :+-]*)[~!']+", r"\1", text)  # Spark marks what streams, and what is not resolved
    return sum(name == operator for _, name in _tree(text))


def state(frame: DataFrame) -> tuple[str, ...]:
    """What a streaming frame keeps from batch to batch, a line for each operator, the innermost first."""
    kept: list[str] = []

    def visit(node: Any) -> None:
        children = _each(node.children())
        for child in children:
            visit(child)
        name = str(node.nodeName())
        if not node.isStreaming():
            return
        if name == "Aggregate":
            keys = [_words(key) for key in _each(node.groupingExpressions())]
            functions = [_words(each) for each in _each(node.aggregateExpressions())]
            made = sorted(set(functions) - set(keys))
            kept.append(f"groupBy({', '.join(keys)}): {', '.join(made)}")
        elif name in ("Deduplicate", "DeduplicateWithinWatermark"):
            kept.append(f"{name}({', '.join(sorted(_words(key) for key in _each(node.keys())))})")
        elif name == "Distinct" or (name == "Join" and all(child.isStreaming() for child in children)):
            columns = [_words(column) for child in children for column in _each(child.output())]
            kept.append(f"{name}({', '.join(columns)})")
        elif name in _STATEFUL:
            kept.append(name)

    visit(_java(frame).queryExecution().analyzed())
    return tuple(kept)


def _words(expression: Any) -> str:
    """An expression and its type, without its alias and the numbers that each plan gives anew.

    Functions of time are told without the width of the watermark.
    """
    text = re.sub(r"#\d+L?|-T\d+ms", "", str(expression.toString()))
    return f"{re.sub(r' AS [^ ()]+$', '', text)} {expression.dataType().simpleString()}"


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def _explain(spark: SparkSession, frame: DataFrame) -> str:
    return _jvm(spark).PythonSQLUtils.explainString(_java(frame).queryExecution(), "simple")


def _tree(text: str) -> list[tuple[int, str]]:
    """(depth, operator) of every line of a plan.

    >>> _tree("== Physical Plan ==\\n*(1) Project [k#1]\\n+- Filter x\\n   +- StreamingRelation kafka")
    [(0, 'Project'), (1, 'Filter'), (2, 'StreamingRelation')]
    """
    nodes: list[tuple[int, str]] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("=="):
            continue
        match = re.match(r"^([ :]*(?:\+- |:- )?)(?:\*\(\d+\) |\* )?([A-Z]\w*)", line)
        if match:
            # Real-time runs every exchange but this kind, which samples the whole input first.
            by_range = line[match.end() :].lstrip().startswith("rangepartitioning(")
            nodes.append((len(match[1]) // 3, "RangeExchange" if by_range else match[2]))
    return nodes


def _has_stream_below(nodes: list[tuple[int, str]], index: int) -> bool:
    depth = nodes[index][0]
    for below, name in nodes[index + 1 :]:
        if below <= depth:
            return False
        if name == _SOURCE:
            return True
    return False


def _sorts_for_aggregate(nodes: list[tuple[int, str]], index: int) -> bool:
    return nodes[index][1] == "Sort" and index > 0 and nodes[index - 1][1] == "SortAggregate"


def _sentence(error: Exception) -> str:
    text = str(getattr(error, "java_exception", None) or error)
    text = re.sub(r"^[\w.]+Exception: ", "", text)
    return text.split(";\n")[0].split("\n")[0].split(" SQLSTATE:")[0]


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm  # pyright: ignore[reportPrivateUsage]


def _java(frame: DataFrame) -> Any:
    return frame._jdf  # pyright: ignore[reportPrivateUsage]


def _module(package: Any, name: str) -> Any:
    return getattr(getattr(package, name), "MODULE$")
