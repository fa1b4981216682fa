"""Draw the pictures of the documentation, in docs/pictures.

    python tools/pictures.py             draw them from the numbers in docs/pictures/*.json
    python tools/pictures.py --measure   run the apps of docs/concepts first, and keep what they measured

Pages show an SVG as an image, so its colours follow the reader's light or dark mode by a media query of its own.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a script

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
_STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #24292f }
.small { font-size: 11px; fill: #57606a }
.name { font-weight: 600 }
.on { fill: #ffffff }
.box { fill: #eef1f4; stroke: #8c959f }
.own { fill: #d7f0ec; stroke: #1a7f74 }
.axis, .grid, .arrow { stroke: #8c959f; fill: none }
.grid { stroke-dasharray: 2 4 }
.head { fill: #8c959f }
.batch { fill: #6941c6; stroke: #6941c6 }
.near-real-time { fill: #b45309; stroke: #b45309 }
.real-time { fill: #0f766e; stroke: #0f766e }
.line { fill: none; stroke-width: 2.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .small { fill: #a3adb8 }
  .on { fill: #ffffff }
  .box { fill: #2a3038; stroke: #7d8590 }
  .own { fill: #123a36; stroke: #3fb8aa }
  .batch { fill: #8b6be0; stroke: #8b6be0 }
  .near-real-time { fill: #c9731b; stroke: #c9731b }
  .real-time { fill: #1c9488; stroke: #1c9488 }
}
"""
WIDTH = 760
_SECONDS_OF_FIRST_RUN = 15  # the rest of a long run before the first shift shows nothing more
_GEARS = ("batch", "near-real-time", "real-time")


def way() -> str:
    """A record's way, from where it happens to where it is seen."""
    parts: list[str] = []
    boxes = {
        "sources": (10, 30, 130, "Sources", "databases, files, HTTP,|simulators, producers", "own"),
        "topic": (180, 30, 110, "Topic", "in Kafka,|schema checked", "box"),
        "pipeline": (330, 30, 130, "Pipeline", "PySpark, in|one of three gears", "own"),
        "results": (500, 30, 110, "Topic", "of results", "box"),
        "table": (500, 130, 110, "Table", "Delta, in the|warehouse", "box"),
        "delivery": (650, 30, 105, "Delivery", "poll, transform,|write, commit", "own"),
        "dead": (180, 130, 110, "Dead letters", "what does not fit,|with the reason", "box"),
        "batch": (330, 130, 130, "Pipeline", "batch on|a calendar", "own"),
        "stores": (650, 130, 105, "Stores, people", "Cassandra,|PostgreSQL, SMS …", "box"),
    }
    for x, y, width, name, words, kind in boxes.values():
        parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="66" rx="6"/>')
        middle = x + width / 2
        parts.append(_text(middle, y + 20, name, "name", anchor="middle"))
        parts += [
            _text(middle, y + 38 + 15 * number, line, "small", anchor="middle")
            for number, line in enumerate(words.split("|"))
        ]
    arrows = [
        (140, 63, 180, 63),
        (290, 63, 330, 63),
        (460, 63, 500, 63),
        (610, 63, 650, 63),
        (702, 96, 702, 130),
        (235, 96, 235, 130),
        (440, 96, 500, 150),
        (500, 175, 460, 175),
    ]
    parts += [_arrow(*arrow) for arrow in arrows]
    return _svg(WIDTH, 206, "The way of a record", parts)


def shift(ledger: Mapping[str, Any]) -> str:
    """The runs of a ledger on a time line: one bar per run, with its gear, its records and the pause before it."""
    runs = [run for run in ledger["runs"] if run["records"]]
    began = max(_seconds(runs[0]["began"]), _seconds(runs[0]["ended"]) - _SECONDS_OF_FIRST_RUN)
    last = max(_seconds(run["ended"]) for run in runs if run["ended"])
    left, right, top, row = 120, WIDTH - 20, 56, 44
    scale = (right - left) / (last - began)
    offset = {gear: top + row * number for number, gear in enumerate(reversed(_GEARS))}
    parts = [_text(10, 20, f"Pipeline {ledger['pipeline']}: one checkpoint, {len(runs)} runs", "name")]
    parts += [_text(10, y + 21, gear) for gear, y in offset.items()]
    for second in _ticks(last - began):
        x = left + second * scale
        bottom = top + 3 * row
        parts.append(f'<line class="grid" x1="{x:.0f}" y1="{top - 8}" x2="{x:.0f}" y2="{bottom}"/>')
        parts.append(_text(x, bottom + 18, f"{second:.0f} s", "small", anchor="middle"))
    before: float | None = None
    for run in runs:
        start = left + (max(_seconds(run["began"]), began) - began) * scale
        end = left + ((_seconds(run["ended"]) if run["ended"] else last) - began) * scale
        y = offset[run["gear"]]
        parts.append(
            f'<rect class="{run["gear"]}" x="{start:.1f}" y="{y}" width="{max(2, end - start):.1f}" height="32" rx="4"/>'
        )
        if end - start > 60:
            parts.append(_text((start + end) / 2, y + 20, f"{run['records']:,}", "on", anchor="middle"))
        if before is not None and run["pause"] is not None:
            parts.append(_text(start, top - 14, f"{run['pause']:.1f} s", "small", anchor="middle"))
        before = end
    records = sum(run["records"] for run in runs)
    gap = sum(run["gap"] for run in ledger["runs"])
    replayed = sum(run["replayed"] or 0 for run in runs)
    words = f"numbers in the bars: records; above: the pause. {records:,} records, gap {gap}, replayed {replayed:,}"
    parts.append(_text(left, top + 3 * row + 40, words, "small"))
    return _svg(WIDTH, top + 3 * row + 54, "A pipeline shifts between gears", parts)


def lag(samples: Mapping[str, Any]) -> str:
    """The lag of two groups over time: one whose topic limits it, and one whose topic does not."""
    curves: dict[str, list[tuple[float, float]]] = samples["lag"]
    limit = samples["max_lag"]
    last = max(second for curve in curves.values() for second, _ in curve)
    highest = max(value for curve in curves.values() for _, value in curve)
    left, right, top, bottom = 60, WIDTH - 150, 20, 230
    marks = _ticks(highest, 5)
    high = max(highest, marks[-1])

    def place(second: float, value: float) -> tuple[float, float]:
        return left + (right - left) * second / last, bottom - (bottom - top) * value / high

    parts: list[str] = []
    for value in marks:
        y = place(0, value)[1]
        parts.append(f'<line class="grid" x1="{left}" y1="{y:.0f}" x2="{right}" y2="{y:.0f}"/>')
        parts.append(_text(left - 8, y + 4, f"{value:,.0f}", "small", anchor="end"))
    for second in _ticks(last):
        parts.append(_text(place(second, 0)[0], bottom + 18, f"{second:.0f} s", "small", anchor="middle"))
    parts.append(f'<path class="axis" d="M{left},{top} V{bottom} H{right}"/>')
    for (name, curve), kind in zip(curves.items(), ("near-real-time", "real-time"), strict=True):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in curve))
        parts.append(f'<polyline class="line {kind}" style="fill:none" points="{points}"/>')
        x, y = place(*curve[-1])
        words = f"max_lag={limit}" if name == "limited" else "no limit"
        parts.append(_text(x + 8, y + 4, words, "name"))
    parts.append(_text(left + 10, top + 4, "lag in records", "small"))
    return _svg(WIDTH, bottom + 30, "Lag with and without back pressure", parts)


def pictures() -> dict[str, str]:
    """Each picture by its file name."""
    return {
        "way.svg": way(),
        "shift.svg": shift(_numbers("ledger.json")),
        "lag.svg": lag(_numbers("lag.json")),
    }


def measure() -> None:
    """Run the apps of docs/concepts, and keep the ledger of some shifts and the lag of two groups."""
    from tools import measurements

    for name, found in (("ledger.json", measurements.ledger()), ("lag.json", measurements.lag())):
        PICTURES.mkdir(exist_ok=True)
        (PICTURES / name).write_text(json.dumps(found, indent=1) + "\n", "utf-8")


def _numbers(name: str) -> Any:
    return json.loads((PICTURES / name).read_text("utf-8"))


def _ticks(highest: float, most: int = 8) -> list[float]:
    """Round numbers from 0 up to the highest.

    >>> _ticks(62)
    [0, 10, 20, 30, 40, 50, 60]
    """
    power = 10 ** math.floor(math.log10(highest))
    step = next(
        step for step in (power / 10, power / 5, power / 2, power, 2 * power) if highest / step <= most
    )
    return [round(number * step, 3) for number in range(int(highest / step) + 1)]


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _text(x: float, y: float, words: str, kind: str = "", *, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def _arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    """A line with a head at its end."""
    angle = math.atan2(y2 - y1, x2 - x1)
    head = " ".join(
        f"{x2 - 8 * math.cos(angle + turn):.1f},{y2 - 8 * math.sin(angle + turn):.1f}"
        for turn in (-0.45, 0.45)
    )
    line = f'<line class="arrow" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'
    return f'{line}<polygon class="head" points="{x2},{y2} {head}"/>'


def _svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    return "\n".join(_lines(width, height, title, parts)) + "\n"


def _lines(width: int, height: int, title: str, parts: Sequence[str]) -> Iterator[str]:
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    yield f"<title>{escape(title)}</title>"
    yield f"<style>\n{_STYLE}</style>"
    yield from parts
    yield "</svg>"


if __name__ == "__main__":
    if "--measure" in sys.argv[1:]:
        measure()
    for file, drawn in pictures().items():
        (PICTURES / file).write_text(drawn, "utf-8")
