"""What is read from files, and which rows of them do not fit."""

from __future__ import annotations

import csv
import io
import resource
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gearshift as gs
from gearshift.errors import WrongFileError
from gearshift.schemas import encode
from gearshift.schemas.json.decoding import JSON
from gearshift.sources.files.arrivals import Folder, is_being_written
from gearshift.sources.files.rows import FileReader
from gearshift.sources.files.source import reader_of
from tests.support import eventually


class Kind(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Inner:
    x: int


@dataclass
class Everything:
    text: str
    whole: int
    number: float
    truth: bool
    data: bytes
    price: Annotated[Decimal, gs.DecimalOf(8, 2)]
    at: datetime
    day: date
    kind: Kind
    maybe: int | None = None
    many: list[int] = field(default_factory=list)
    by_name: dict[str, float] = field(default_factory=dict)
    inner: Inner | None = None
    usual: int = 7


VALUE = Everything(
    "a, b",
    -(2**63),
    2.5,
    True,
    b"\x00\xff",
    Decimal("12.50"),
    datetime(2026, 3, 1, 12, 30, tzinfo=UTC),
    date(2026, 3, 1),
    Kind.BLUE,
    3,
    [1, 2],
    {"k": 0.5},
    Inner(1),
    8,
)


def rows(reader: FileReader, content: bytes, value_type: type[Any] = Everything) -> list[Any]:
    """The values, and the words of what does not fit."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        reader.survey(file, value_type)
        return [row.value if row.misfit is None else str(row.misfit) for row in reader.rows(file, value_type)]


CELLS = {
    "text": "a, b",
    "whole": str(-(2**63)),
    "number": "2.5",
    "truth": "TRUE",
    "data": "AP8=",
    "price": "12.50",
    "at": "2026-03-01T13:30:00+01:00",
    "day": "2026-03-01",
    "kind": "blue",
    "maybe": "3",
    "many": "[1, 2]",
    "by_name": '{"k": 0.5}',
    "inner": '{"x": 1}',
    "usual": "8",
}


def as_csv(*all_cells: dict[str, str]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, all_cells[0])
    writer.writeheader()
    writer.writerows(all_cells)
    return out.getvalue().encode()


def test_every_type_is_read_from_csv_and_an_empty_cell_is_none_or_the_default() -> None:
    reader = reader_of("csv")
    empty = {**CELLS, "maybe": "", "usual": "", "inner": "", "text": ""}
    found = rows(reader, b"\xef\xbb\xbf" + as_csv(CELLS, empty))
    assert found[0] == VALUE
    assert (found[1].maybe, found[1].usual, found[1].inner, found[1].text) == (None, 7, None, "")
    required = {name: CELLS[name] for name in list(CELLS)[:9]}
    assert rows(reader, as_csv(required))[0].usual == 7


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({"whole": "1_000"}, "field whole: is not an integer"),
        ({"whole": "١"}, "field whole: is not an integer"),
        ({"whole": str(2**63)}, "field whole: does not fit in 64 bits"),
        ({"whole": ""}, "field whole: is empty"),
        ({"number": "nan"}, "field number: is not a number"),
        ({"number": "1e999"}, "field number: is not a finite number"),
        ({"truth": "maybe"}, "field truth: is neither true nor false"),
        ({"price": "1e9"}, "field price: has too many digits for decimal(8, 2)"),
        ({"at": "2026-03-01"}, "field at: is not an RFC 3339 time with a zone"),
        ({"kind": "green"}, "field kind: 'green' is not a value of Kind: red, blue"),
        ({"many": "[1, "}, "field many: not valid JSON"),
        ({"inner": '{"y": 1}'}, "field inner.x: is missing"),
    ],
)
def test_a_cell_that_does_not_fit_is_reported_with_its_field(cells: dict[str, str], words: str) -> None:
    found = rows(reader_of("csv"), as_csv({**CELLS, **cells}, CELLS))
    assert found[0].startswith(words)
    assert found[1] == VALUE


@given(
    st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.integers(-9, 9)), max_size=30)
)
def test_whatever_a_csv_writer_writes_is_read_back(pairs: list[tuple[str, int]]) -> None:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["s", "n"])
    # A NUL is what binary files are known by.
    wanted = [Pair(text.replace("\0", "?"), number) for text, number in pairs]
    writer.writerows((pair.s, pair.n) for pair in wanted)
    assert rows(reader_of("csv"), out.getvalue().encode(), Pair) == wanted


@dataclass
class Pair:
    s: str
    n: int


@given(st.lists(st.one_of(st.just("good,1"), st.text('ab",', min_size=1)), max_size=20))
def test_every_line_of_any_file_becomes_a_value_or_a_misfit(lines: list[str]) -> None:
    file = io.BytesIO(("s,n\n" + "".join(f"{line}\n" for line in lines)).encode())
    taken: list[tuple[int, bytes]] = []
    good = 0
    for row in reader_of("csv").rows(file, Pair):
        taken.append((row.line, row.original()))
        good += row.value == Pair("good", 1)
    assert b"\n".join(original for _, original in taken).decode() == "\n".join(lines)
    assert [line for line, _ in taken] == sorted({line for line, _ in taken})
    if not any('"' in line for line in lines):
        assert good == lines.count("good,1")


def test_an_open_quote_spoils_its_own_line_only() -> None:
    text = b's,n\na,1\nb,"2\nc,3\nd"x,4\n"e,5\nf,6\n'
    found = rows(reader_of("csv"), text, Pair)
    assert [each.s if isinstance(each, Pair) else each[:16] for each in found] == [
        "a",
        "is not valid CSV",
        "c",
        'd"x',
        "is not valid CSV",
        "f",
    ]


def test_parquet_of_every_type_is_read() -> None:
    table = pa.table(
        {
            "text": ["a, b"],
            "whole": pa.array([-(2**63)], pa.int64()),
            "number": pa.array([2.5], pa.float32()),
            "truth": [True],
            "data": [b"\x00\xff"],
            "price": [Decimal("12.5000")],
            "at": pa.array([VALUE.at], pa.timestamp("ms", "Europe/Berlin")),
            "day": pa.array([VALUE.day], pa.date32()),
            "kind": ["blue"],
            "maybe": pa.array([3], pa.int8()),
            "many": [[1, 2]],
            "by_name": pa.array([[("k", 0.5)]], pa.map_(pa.string(), pa.float64())),
            "inner": [{"x": 1}],
            "usual": pa.array([8], pa.uint16()),
        }
    )
    assert encode(rows(reader_of("parquet"), as_parquet(table))[0]) == encode(VALUE)


def as_parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def test_a_parquet_row_that_does_not_fit_is_reported_and_the_others_are_read() -> None:
    numbers = pa.array([1, 2**63 + 5, None, 4], pa.uint64())
    found = rows(reader_of("parquet"), as_parquet(pa.table({"s": ["a", "b", "c", "d"], "n": numbers})), Pair)
    assert found[0] == Pair("a", 1)
    assert found[1].startswith("field n: ")
    assert found[2:] == ["field n: is null", Pair("d", 4)]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"s": ["a"]}, "field n: has no column"),
        ({"s": ["a"], "m": [1], "n": [1]}, "field m: Pair has no such field; it has s, n"),
        ({"s": ["a"], "n": [[1]]}, "field n: is list<element: int64>, not int64"),
    ],
)
def test_a_parquet_file_with_other_columns_is_refused_as_a_whole(table: dict[str, Any], words: str) -> None:
    with pytest.raises(WrongFileError) as caught:
        rows(reader_of("parquet"), as_parquet(pa.table(table)), Pair)
    assert words in caught.value.what


def test_a_damaged_page_is_found_before_the_first_row_is_sent() -> None:
    content = bytearray(as_parquet(pa.table({"s": [str(n) for n in range(5_000)], "n": list(range(5_000))})))
    content[2_000:2_200] = bytes(200)
    with pytest.raises(WrongFileError, match="not a complete Parquet file"):
        rows(reader_of("parquet"), bytes(content), Pair)


def test_json_lines_are_read_strictly() -> None:
    text = b'{"s": "a", "n": 1}\n\n{"s": "b", "n": 2, "n": 3}\n{"s": "c", "n": 1, "m": 2}\n[]\n{"s": "d", "n": 4}'
    assert rows(reader_of("jsonl"), text, Pair) == [
        Pair("a", 1),
        "field n: appears twice",
        "field m: Pair has no such field; it has s, n",
        "is list, not an object",
        Pair("d", 4),
    ]
    assert JSON.closed is False


def test_a_line_without_end_is_no_text_file() -> None:
    with pytest.raises(WrongFileError, match="a line of more than 16 MB"):
        rows(reader_of("jsonl"), b" " * (17 << 20), Pair)


def test_a_file_is_complete_when_it_is_quiet_and_not_open_for_writing(tmp_path: Path) -> None:
    folder = Folder(tmp_path, (".csv",), timedelta(milliseconds=50))
    path = tmp_path / "a.csv"
    with path.open("w") as writing, path.open("rb") as reading:
        writing.write("x")
        writing.flush()
        assert folder.whole() == []
        found = eventually(folder.whole)
        assert [each.name for each, _ in found] == ["a.csv"]
        assert is_being_written(reading.fileno())
        writing.write("y")
        writing.flush()
        assert folder.whole() == []
    with path.open("rb") as reading:
        assert not is_being_written(reading.fileno())
    (tmp_path / ".b.csv").touch()
    (tmp_path / "c.csv.tmp").touch()
    (tmp_path / "d.csv").symlink_to(path)
    eventually(lambda: folder.whole() and folder.ignored == {"d.csv"})


@dataclass
class Note:
    text: str | None


@dataclass
class Notes:
    texts: list[str]


def test_a_parquet_bomb_is_refused_in_little_memory(tmp_path: Path) -> None:
    many = pa.DictionaryArray.from_arrays(pa.array([0] * 5_000, pa.int32()), pa.array(["x" * 1_000_000]))
    bombs = {
        "dictionary": (Note, pa.table({"text": many}), "1,000 of its rows take more than 256 MB of memory"),
        "list": (
            Notes,
            pa.table({"texts": pa.ListArray.from_arrays(pa.array([0, 5_000], pa.int32()), many)}),
            "1,000 of its rows take more than 256 MB of memory",
        ),
        "page": (Note, pa.table({"text": ["x" * 300_000_000]}), "take more than 256 MB of memory"),
        "nulls": (Note, pa.table({"text": pa.nulls(20_000_000, pa.string())}), "claims 20,000,000 rows"),
    }
    for name, (_, table, _) in bombs.items():
        pq.write_table(
            table, tmp_path / name, compression="zstd", write_statistics=False, row_group_size=1 << 30
        )
    del table, many
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, (value_type, _, words) in bombs.items():
        assert (tmp_path / name).stat().st_size < 50_000
        with (tmp_path / name).open("rb") as file, pytest.raises(WrongFileError, match=words):
            reader_of("parquet").survey(file, value_type)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes
    pq.write_table(pa.table({"text": ["fine"] * 3}), tmp_path / "fine")
    with (tmp_path / "fine").open("rb") as file:
        assert reader_of("parquet").survey(file, Note)
        assert [row.value for row in reader_of("parquet").rows(file, Note)] == [Note("fine")] * 3
