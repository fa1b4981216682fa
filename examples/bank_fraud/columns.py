"""Which column of a file is what: the names that public data sets and banks give to their columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from sheets import Row, Sheet

_NAMES = {
    "id": "trans_num transaction_id trans_id txn_id tx_id transaction_number transaction_reference fitid",
    "account": (
        "nameorig cc_num card_number account_id account_no account_number account auftragskonto rekening konto "
        "kontonummer iban_auftragskonto iban sender_account card_no customer_id customer card_id acct_num user "
        "client_id card1"
    ),
    "card": "card",
    "counterparty": (
        "namedest merchant merchant_name payee receiver_account partner_name counterparty counterparty_name "
        "beneficiary naam_omschrijving beguenstigter_zahlungspflichtiger begünstigter_zahlungspflichtiger "
        "auftraggeber_begünstigter zahlungsempfänger zahlungsempfänger_in name_zahlungsbeteiligter merchant_id description details "
        "transaction_details transaction_description narration verwendungszweck omschrijving memo name"
    ),
    "kind": (
        "type category transaction_type k_symbol operation buchungstext mutatiesoort use_chip umsatztyp "
        "payment_format payment_type mcc product_cd"
    ),
    "amount": (
        "amount amt transaction_amount transaction_amt transaction_amount_inr amount_eur amount_usd amount_gbp amount_lcy betrag "
        "betrag_eur umsatz bedrag bedrag_eur montant importe importo amount_paid gross value"
    ),
    "debit": "debit debit_amount withdrawal_amt withdrawal_amount withdrawals withdrawal paid_out money_out soll",
    "credit": "credit credit_amount deposit_amt deposit_amount deposits deposit paid_in money_in haben",
    "direction": "af_bij debit_credit dr_cr drcr credit_debit_indicator sign direction",
    "before": "oldbalanceorg oldbalanceorig balance_before opening_balance",
    "step": "step",
    "when": (
        "trans_date_trans_time timestamp datetime date_time transaction_date_time transaction_datetime "
        "transaction_timestamp trans_datetime"
    ),
    "date": (
        "transaction_date trans_date txn_date booking_date posted_date posting_date date datum buchungstag buchungsdatum "
        "started_date completed_date valuta wertstellung fecha data value_date"
    ),
    "clock": "transaction_time trans_time time uhrzeit tijd transaction_dt",
    "unix": "unix_time",
    "year": "year",
    "month": "month",
    "day": "day",
    "lat": "lat home_lat customer_lat",
    "long": "long lon lng home_long customer_long",
    "shop_lat": "merch_lat merchant_lat",
    "shop_long": "merch_long merchant_long",
    "abroad": "is_abroad is_foreign foreign is_international international",
    "device": "is_new_device new_device",
    "state": "status state transaction_status",
    "fraud": "is_fraud fraud fraud_label fraud_flag is_fraudulent is_laundering is_suspicious class",
}
NAMES = {role: tuple(names.replace("_", "").split()) for role, names in _NAMES.items()}
"""The names of each column, the better ones first; as `plain` gives them."""
_HEADER_WITHIN = 30
_TIMES = frozenset({"step", "when", "date", "clock", "unix", "year"})
_AMOUNTS = frozenset({"amount", "debit", "credit"})


@dataclass(frozen=True)
class Columns:
    """The place of each column that a file has, and how wide its rows must be."""

    places: dict[str, int]
    width: int

    def __contains__(self, role: str) -> bool:
        return role in self.places

    def cell(self, row: Row, role: str) -> str:
        """A cell of a row; empty if the file has no such column."""
        place = self.places.get(role)
        return row.cells[place] if place is not None else ""


def plain(name: str) -> str:
    """The name of a column in the form that is looked up: its letters and digits.

    >>> plain("Is Fraud?"), plain("WITHDRAWAL AMT"), plain("Betrag (EUR)"), plain("nameOrig"), plain("cc_num")
    ('isfraud', 'withdrawalamt', 'betrageur', 'nameorig', 'ccnum')
    """
    return "".join(character for character in name.lower() if character.isalnum())


def columns_of(sheet: Sheet) -> tuple[Columns, Iterator[Row]]:
    """The columns by the file's header, and the rows after it."""
    first: Row | None = None
    for row in islice(sheet.rows, _HEADER_WITHIN):
        first = first or row
        found = _places(row)
        if found.keys() & _TIMES and found.keys() & _AMOUNTS:
            needed = [place for role, place in found.items() if role != "counterparty"]
            return Columns(found, max(needed) + 1), sheet.rows
    if first is None:
        return Columns({}, 0), iter(())
    found = _places(first)
    lacks = [what for what, roles in (("time", _TIMES), ("amount", _AMOUNTS)) if not found.keys() & roles]
    raise first.error(
        f"no column of a header is a transaction's {' or '.join(lacks) or 'time'}: {', '.join(first.cells)[:200]}",
        "name them in a header, such as account,date,amount,type",
    )


def _places(row: Row) -> dict[str, int]:
    names = [plain(cell) for cell in row.cells]
    found: dict[str, int] = {}
    for role, aliases in NAMES.items():
        for alias in aliases:
            if alias in names:
                found[role] = names.index(alias)
                break
    if found.get("account") == found.get("card"):
        found.pop("card", None)
    return found
