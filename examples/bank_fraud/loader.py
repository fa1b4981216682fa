"""Loads public bank and card transactions, and statements as banks export them: CSV, plain or compressed, or a folder.

| format | known by |
|---|---|
| PaySim | `step,type,amount,nameOrig,oldbalanceOrg,…,nameDest,…,isFraud`; a step is an hour |
| Sparkov | `trans_date_trans_time,cc_num,merchant,category,amt,…,merch_lat,merch_long,is_fraud` |
| BankSim | `step,customer,…,merchant,…,category,amount,fraud`; a step is a day |
| IBM | `User,Card,Year,Month,Day,Time,Amount,Use Chip,Merchant Name,…,Is Fraud?` |
| ULB | `Time,V1,…,V28,Amount,Class`; a time is in seconds |
| IEEE-CIS | `TransactionID,isFraud,TransactionDT,TransactionAmt,ProductCD,card1,…`; a time is in seconds |
| statements | columns such as date, description and amount, or paid in and paid out (`columns.py`) |

- Steps and seconds count from the first of January 2024, a Monday. A time without an offset is UTC.
- 03/04/2024 is day-first or month-first as the first lines prove; where none does, the file is refused, unless `dates`
  (or the variable BANK_DATES) says "day-first" or "month-first". So is a later line that contradicts.
- Amounts leave the account, except those that a column marks as credits. In a statement, a file with negative amounts
  and no column of frauds, the negative ones leave it. More than two decimals are rounded half up.
- Lines of a payment that failed, was declined or reverted are left out, and so are those that only state a balance.
- Without a column for it, an account is the file's name, and a transaction's id is the file's name with the line.
- PaySim, BankSim and Sparkov have the order of time, and are read while they are sent; other files are sorted first.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from heapq import merge
from itertools import chain, islice
from pathlib import Path

from columns import Columns, columns_of
from sheets import Row, Sheet, files_of, sheets
from texts import amount_of, instant, is_ambiguous, mark_of, proves_months_first
from transaction import Transaction

from gearshift.errors import WrongFileError

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
LEAVES = frozenset({"debit", "d", "dr", "af", "soll", "vydaj", "vyber", "withdrawal", "out"})
ARRIVES = frozenset({"credit", "c", "cr", "bij", "haben", "prijem", "deposit", "in", "cash_in"})
_YES = frozenset({"1", "1.0", "yes", "true", "y", "t", "fraud"})
_NO = frozenset({"0", "0.0", "no", "false", "n", "f", "", "legit"})
_ORDERS = {"day-first": False, "month-first": True}
_SAMPLE = 2_000  # rows that show how a file is written
_DISORDER = timedelta(days=2)  # as long as the balances of `bank_fraud.py` wait
_AMOUNTS = ("amount", "debit", "credit")
_SIGNED = re.compile(r"[-−(]|.*(-|[DC]r\.?)$", re.IGNORECASE)
_NOT_DONE = frozenset({"failed", "failure", "declined", "rejected", "reverted", "cancelled", "canceled"})
_BALANCE = re.compile(r"\b(balance|saldo|kontostand|(brought|carried) forward)\b", re.IGNORECASE)


def load(path: Path, *, dates: str | None = None) -> Iterator[Transaction]:
    """The transactions of a path in the order of their time."""
    dates = dates or os.environ.get("BANK_DATES")
    if dates is not None and dates not in _ORDERS:
        raise WrongFileError(f"unknown order of dates {dates!r}", hint=f"use {' or '.join(_ORDERS)}")
    months_first = _ORDERS.get(dates or "")
    found = merge(*(_of_file(file, months_first) for file in files_of(path)), key=_when)
    first = next(found, None)
    if first is None:
        raise WrongFileError(
            "it has no transactions", hint="name a file with at least one transaction", file=str(path)
        )
    yield first
    yield from found


def _when(transaction: Transaction) -> datetime:
    return transaction.at


def _of_file(file: Path, months_first: bool | None) -> Iterator[Transaction]:
    unordered: list[Transaction] = []
    for sheet in sheets(file):
        columns, rows = columns_of(sheet)
        sample = list(islice(rows, _SAMPLE))
        if not sample:
            continue
        reader = _Reader.of(sheet, columns, sample, months_first)
        if file.suffix.lower() != ".zip" and ("step" in columns or "unix" in columns):
            yield from _in_order(reader, chain(sample, rows))
        else:
            unordered += (
                reader.transaction(row) for row in chain(sample, rows) if reader.is_transaction(row)
            )
    yield from sorted(unordered, key=_when)


def _in_order(reader: _Reader, rows: Iterable[Row]) -> Iterator[Transaction]:
    """The transactions of a file that has the order of time, read while they are sent: these are millions."""
    newest = datetime.min.replace(tzinfo=UTC)
    for row in rows:
        made = reader.transaction(row)
        if made.at + _DISORDER < newest:
            raise row.error(
                f"{made.at:%Y-%m-%d %H:%M} comes after {newest:%Y-%m-%d %H:%M}",
                "sort the file by time: what is so late no longer counts",
            )
        newest = max(newest, made.at)
        yield made


@dataclass(frozen=True)
class _Reader:
    """How one file is written."""

    name: str
    columns: Columns
    mark: str
    months_first: bool | None
    is_statement: bool
    step: timedelta

    @classmethod
    def of(cls, sheet: Sheet, columns: Columns, sample: Sequence[Row], months_first: bool | None) -> _Reader:
        for row in sample:
            _require_width(row, columns)
        amounts = [columns.cell(row, role) for row in sample for role in _AMOUNTS]
        role = "when" if "when" in columns else "date"
        days = [columns.cell(row, role) for row in sample]
        proven = proves_months_first(days)
        if proven is None:
            proven = months_first
        if proven is None and (
            unclear := next((row for row, day in zip(sample, days, strict=True) if is_ambiguous(day)), None)
        ):
            raise unclear.error(
                f"{columns.cell(unclear, role)!r} is day-first or month-first, and no line of the file proves it",
                'set BANK_DATES to "day-first" or "month-first"',
            )
        is_signed = any(_SIGNED.match(columns.cell(row, "amount")) for row in sample)
        return cls(
            sheet.name,
            columns,
            mark_of(amounts, sheet.delimiter),
            proven,
            is_signed and "fraud" not in columns,
            timedelta(hours=1) if "before" in columns else timedelta(days=1),
        )

    def is_transaction(self, row: Row) -> bool:
        """Whether a row is of money that moved: not of a balance, and not of a payment that failed."""
        cell = self.columns.cell
        _require_width(row, self.columns)
        if cell(row, "state").lower() in _NOT_DONE:
            return False
        names_balance = self._has_counterparty(row) and _BALANCE.search(cell(row, "counterparty"))
        return not names_balance or any(cell(row, role) for role in _AMOUNTS)

    def transaction(self, row: Row) -> Transaction:
        """The transaction of a row."""
        columns = self.columns
        _require_width(row, columns)
        account = columns.cell(row, "account") or ("" if "account" in columns else self.name)
        if not account:
            raise row.error("the line has no account", "complete or remove it")
        if "card" in columns:
            account = f"{account}-{columns.cell(row, 'card')}"
        before = columns.cell(row, "before")
        counterparty = columns.cell(row, "counterparty") if self._has_counterparty(row) else ""
        return Transaction(
            columns.cell(row, "id") or f"{self.name}:{row.line}",
            account,
            counterparty.removeprefix("fraud_"),  # Sparkov puts it before the names of all merchants
            columns.cell(row, "kind").lower() or "payment",
            self._amount(row),
            self._at(row),
            self._money(row, before) if before else None,
            self._distance(row),
            _is(row, columns.cell(row, "abroad")),
            _is(row, columns.cell(row, "device")),
            _is(row, columns.cell(row, "fraud")),
        )

    def _has_counterparty(self, row: Row) -> bool:
        """Exports leave out the last cells of a line where they are empty."""
        return self.columns.places.get("counterparty", len(row.cells)) < len(row.cells)

    def _amount(self, row: Row) -> Decimal:
        cell = self.columns.cell
        if text := cell(row, "amount"):
            amount = self._money(row, text)
            for direction in (cell(row, "direction").lower(), cell(row, "kind").lower()):
                if direction in LEAVES | ARRIVES:
                    return abs(amount) if direction in LEAVES else -abs(amount)
            return -amount if self.is_statement else amount
        debit, credit = cell(row, "debit"), cell(row, "credit")
        if not debit and not credit:
            raise row.error("the line has no amount", "complete or remove it")
        out = abs(self._money(row, debit)) if debit else Decimal(0)
        return out - (abs(self._money(row, credit)) if credit else Decimal(0))

    def _money(self, row: Row, text: str) -> Decimal:
        try:
            return amount_of(text, self.mark)
        except ValueError as error:
            hint = f"correct or remove the line; the file's decimal mark is {self.mark!r}"
            raise row.error(str(error), hint) from None

    def _at(self, row: Row) -> datetime:
        columns = self.columns
        try:
            if "step" in columns:
                first = 1 if self.step < timedelta(days=1) else 0
                return BEGIN + self.step * (_count(columns.cell(row, "step")) - first)
            if "year" in columns:
                day = "-".join(columns.cell(row, role) for role in ("year", "month", "day"))
                return instant(day, columns.cell(row, "clock"), months_first=False)
            for role in ("when", "date"):
                if role in columns:
                    return self._instant(row, columns.cell(row, role))
            if "unix" in columns:
                return datetime.fromtimestamp(_count(columns.cell(row, "unix")), UTC)
            return BEGIN + timedelta(seconds=_count(columns.cell(row, "clock")))
        except (ValueError, OverflowError, OSError) as error:
            raise row.error(str(error), "correct or remove the line") from None

    def _instant(self, row: Row, text: str) -> datetime:
        found = proves_months_first([text])
        if found is None and self.months_first is None and is_ambiguous(text):
            raise ValueError(f"{text!r} is day-first or month-first, and no line before proves it")
        if found is not None and self.months_first is not None and found != self.months_first:
            order = "month-first" if self.months_first else "day-first"
            raise ValueError(f"{text!r} is not {order}, as the file is")
        return instant(text, self.columns.cell(row, "clock"), months_first=bool(self.months_first))

    def _distance(self, row: Row) -> float | None:
        cells = [self.columns.cell(row, role) for role in ("lat", "long", "shop_lat", "shop_long")]
        if not all(cells):
            return None
        try:
            return round(_kilometres(*(math.radians(float(cell)) for cell in cells)), 1)
        except ValueError:
            raise row.error(f"{', '.join(cells)} are not two places", "correct or remove the line") from None


def _kilometres(lat: float, long: float, other_lat: float, other_long: float) -> float:
    """The distance of two places on the globe, in radians.

    >>> round(_kilometres(0.0, 0.0, 0.0, math.pi))
    20015
    """
    half = math.sin((other_lat - lat) / 2) ** 2
    half += math.cos(lat) * math.cos(other_lat) * math.sin((other_long - long) / 2) ** 2
    return 2 * 6_371.0 * math.asin(min(1.0, math.sqrt(half)))


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{1,12}(\.\d*)?(e\+?\d{1,2})?", text, re.ASCII | re.IGNORECASE):
        raise ValueError(f"{text!r} is not a time")
    return int(Decimal(text))


def _is(row: Row, text: str) -> bool:
    if text.lower() not in _YES | _NO:
        raise row.error(f"{text!r} is neither yes nor no", "use 1 or 0")
    return text.lower() in _YES


def _require_width(row: Row, columns: Columns) -> None:
    if len(row.cells) < columns.width:
        raise row.error(
            f"the line has {len(row.cells)} columns, at least {columns.width} are needed",
            "complete or remove it",
        )
