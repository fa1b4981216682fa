"""What Spark would do with a frame, found by planning it: its operators, and the line of code behind each."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from gearshift.definitions import Location, Pipeline, Topic
from gearshift.spark import private

_ALIASES = {"ShuffleExchangeExec": "Exchange", "BroadcastExchangeExec": "BroadcastExchange"}
_SOURCE = "StreamingRelation"
_ADAPTIVE = "AdaptiveSparkPlan"  # only in explained plans, never in started streams
_STATEFUL = frozenset(
    {
        "GlobalLimit",
        "FlatMapGroupsInPandasWithState",
        "FlatMapGroupsWithState",
        "TransformWithState",
        "TransformWithStateInPySpark",
    }
)
_GROUPINGS = {
    "Aggregate": "groupingExpressions",
    "Deduplicate": "keys",
    "DeduplicateWithinWatermark": "keys",
}
_AGGREGATES = frozenset({"HashAggregate", "ObjectHashAggregate", "SortAggregate"})


@dataclass(frozen=True, slots=True)
class Made:
    """A frame and the line of the user's code that created it."""

    frame: DataFrame
    at: Location


def streaming_operators(spark: SparkSession, frame: DataFrame) -> list[str]:
    """The operators between the streams and the result, without the static sides of joins."""
    nodes = _tree(private.explained_plan(spark, frame))
    return [
        name
        for index, (_, name) in enumerate(nodes)
        if name not in (_SOURCE, _ADAPTIVE)
        and _has_stream_below(nodes, index)
        and not _sorts_for_aggregate(nodes, index)
    ]


def plan(frame: DataFrame) -> str:
    """Spark's plan as text."""
    return private.explained_plan(frame.sparkSession, frame)


def real_time_operators(spark: SparkSession) -> frozenset[str]:
    """The operators that Spark allows in real-time."""
    names = private.real_time_operators(spark)
    simple = (name.rsplit(".", 1)[-1].removesuffix("$") for name in names)
    allowed = frozenset(_ALIASES.get(name, name.removesuffix("Exec")) for name in simple)
    # Planned for real-time, every kind of aggregation becomes this one operator.
    return allowed | _AGGREGATES if "StatefulStreamlineAggregate" in allowed else allowed


def output_mode(spark: SparkSession, frame: DataFrame, pipeline: Pipeline) -> str:
    """The output mode of a pipeline, the same in every gear.

    Topics take updates, the only mode real-time has, and so do tables with a key, where a row replaces the one
    before. What Spark refuses in update mode (a join of two streams) can never run in real-time, and is appended.
    A table without a key takes final rows only.
    """
    target = pipeline.target
    if (isinstance(target, Topic) or target.key) and refusal(spark, frame, "update") is None:
        return "update"
    return "append"


def refusal(spark: SparkSession, frame: DataFrame, mode: str, *, real_time: bool = False) -> str | None:
    """Spark's reason for not starting this frame as a stream; None if it would."""
    error = private.streaming_refusal(spark, frame, mode, real_time=real_time)
    return _sentence(error) if error is not None else None


def trace(pipeline: Pipeline, frames: Mapping[str, Any]) -> tuple[Any, list[Made]]:
    """Call a pipeline's transform and record every frame that its lines create, in order."""
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
    """The line that created the first guilty frame."""
    return next((entry.at for entry in made if is_guilty(entry.frame)), None)


def shuffles(spark: SparkSession, frame: DataFrame) -> int:
    """The number of shuffles: each holds additional tasks in real-time."""
    return sum(name == "Exchange" for name in streaming_operators(spark, frame))


def count(frame: DataFrame, operator: str) -> int:
    """The number of occurrences of an operator in the plan before optimization."""
    text = str(private.analyzed_plan(frame).toString())
    text = re.sub(r"(?m)^([ :+-]*)[~!']+", r"\1", text)  # Spark's marks for streaming and unresolved nodes
    return sum(name == operator for _, name in _tree(text))


def grouped_by(frame: DataFrame) -> tuple[str, ...] | None:
    """The columns that the outermost grouping of a streaming frame groups by; None if it has no grouping.

    Empty for a function with state in Python, which returns the rows of its groups in any order.
    """
    node: Any = private.analyzed_plan(frame)
    while True:
        name = str(node.nodeName())
        if name in _GROUPINGS:
            keys = _each(getattr(node, _GROUPINGS[name])())
            named = (key for key in keys if key.getClass().getSimpleName() in ("AttributeReference", "Alias"))
            return tuple(str(key.name()) for key in named)
        if name in _STATEFUL - {"GlobalLimit"}:
            return ()
        streams = [child for child in _each(node.children()) if child.isStreaming()]
        if len(streams) != 1:
            return None
        node = streams[0]


def state(frame: DataFrame) -> tuple[str, ...]:
    """The state that a streaming frame keeps between batches, one line per operator, innermost first."""
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

    visit(private.analyzed_plan(frame))
    return tuple(kept)


def _words(expression: Any) -> str:
    """An expression and its type, without its alias and the ids that differ from plan to plan.

    The width of the watermark is left out of time functions.
    """
    text = re.sub(r"#\d+L?|-T\d+ms", "", str(expression.toString()))
    return f"{re.sub(r' AS [^ ()]+$', '', text)} {expression.dataType().simpleString()}"


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def _tree(text: str) -> list[tuple[int, str]]:
    """The depth and the operator of every line of a plan.

    >>> _tree("== Physical Plan ==\\n*(1) Project [k#1]\\n+- Filter x\\n   +- StreamingRelation kafka")
    [(0, 'Project'), (1, 'Filter'), (2, 'StreamingRelation')]
    >>> _tree("!TransformWithStateInPySpark f(k#1)\\n:- *(2) Sort [k#1]")
    [(0, 'TransformWithStateInPySpark'), (1, 'Sort')]
    """
    nodes: list[tuple[int, str]] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("=="):
            continue
        # Spark marks nodes with missing inputs by !, such as Python functions with state.
        match = re.match(r"^([ :]*(?:\+- |:- )?)(?:\*\(\d+\) |\* )?!?([A-Z]\w*)", line)
        if match:
            # Real-time runs every exchange except this one, which samples the whole input first.
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
