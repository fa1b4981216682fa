"""The bank story: loaders of public formats, and every number in every gear against plain Python."""

from __future__ import annotations

import gzip
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import gearshift as gs
from gearshift.errors import WrongFileError
from gearshift.freshness import Gear
from gearshift.runner.runner import Runner
from gearshift.settings import Settings
from gearshift.testing import Deliver, Run, Transform
from gearshift.topics import Producer
from tests import stories
from tests.demos import tell
from tests.flow import values
from tests.support import eventually

bank = stories.load("bank_fraud", "bank_fraud")
loader = stories.load("bank_fraud", "loader")
model = stories.load("bank_fraud", "model")
simulator = stories.load("bank_fraud", "simulator")
truth = stories.load("bank_fraud", "truth")
Transaction = stories.load("bank_fraud", "transaction").Transaction

DATA = Path(__file__).parents[1] / "data" / "bank_fraud"
EVERY_GEAR = (Gear.BATCH, Gear.NEAR_REAL_TIME, Gear.REAL_TIME)
AWKWARD = {"late": 0.05, "repeated": 0.02, "disorder": timedelta(hours=30), "event_time": "at"}
MONDAY = datetime(2024, 3, 4, tzinfo=UTC)
WEEK = timedelta(days=7)
WEEKS = list(simulator.simulate(days=14))
DAYS = [each for each in WEEKS if each.at < MONDAY + timedelta(days=3)]


def loaded(name: str) -> list:
    return list(loader.load(DATA / name))


def written(folder: Path, *lines: str, name: str = "bank.csv") -> Path:
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / name


def refusal(path: Path) -> WrongFileError:
    with pytest.raises(WrongFileError) as refused:
        list(loader.load(path))
    return refused.value


def test_paysim_is_read_with_its_hours_balances_and_frauds() -> None:
    found = loaded("paysim.csv")
    assert found[0] == Transaction(
        "paysim:2",
        "C1231006815",
        "M1979787155",
        "payment",
        Decimal("9839.64"),
        datetime(2024, 1, 1, tzinfo=UTC),
        Decimal("170136.00"),
    )
    assert [each.is_fraud for each in found] == [False, True, True, False, False, True]
    assert [str(each.amount) for each in found[3:]] == ["-10560000.00", "5337.77", "850002.52"]
    assert found[5].at == datetime(2024, 1, 2, 1, tzinfo=UTC)
    assert found[5].amount == found[5].balance_before


def test_sparkov_is_read_with_places_and_merchants() -> None:
    found = loaded("sparkov.csv")
    assert [each.account for each in found] == ["2703186189652095", "630423337322", "38859492057661"]
    assert found[0].counterparty == "Rippin, Kub and Mann"
    assert found[0].transaction_id == "0b242abb623afc578575680df30655b9"
    assert (found[0].kind, found[0].amount) == ("misc_net", Decimal("4.97"))
    assert found[0].at == datetime(2019, 1, 1, 0, 0, 18, tzinfo=UTC)
    assert [each.distance_km for each in found] == pytest.approx([78.6, 30.2, 108.2], abs=0.1)
    assert [each.is_fraud for each in found] == [False, False, True]


def test_dates_that_excel_has_rewritten_are_day_first_as_a_later_line_proves() -> None:
    found = loaded("sparkov-excel.csv")
    assert [each.at.isoformat() for each in found] == [
        "2019-01-04T00:58:00+00:00",
        "2019-01-14T15:06:00+00:00",
    ]
    assert found[0].account == "sparkov-excel"


def test_banksim_ibm_and_ulb_are_read() -> None:
    one, two = loaded("banksim.csv")
    assert (one.account, one.counterparty, one.kind) == ("C1093826151", "M348934600", "es_transportation")
    assert two.at - one.at == timedelta(days=1) and two.is_fraud and not one.is_fraud
    one, two = loaded("ibm.csv")
    assert (one.account, one.amount, one.is_fraud) == ("0-0", Decimal("134.09"), False)
    assert (two.account, two.amount, two.is_fraud) == ("0-3", Decimal("-38.48"), True)
    assert one.at == datetime(2002, 9, 1, 6, 21, tzinfo=UTC)
    one, two = loaded("ulb.csv")
    assert (one.account, one.amount, two.is_fraud) == ("ulb", Decimal("149.62"), True)
    assert two.at - one.at == timedelta(seconds=406)


def test_statements_of_banks_are_read_with_decimal_commas_signs_and_lines_before_the_header() -> None:
    salary, groceries = loaded("ing.csv")  # the newest line is the first in the file
    assert (groceries.amount, groceries.counterparty) == (Decimal("1034.17"), "Albert Heijn 1521")
    assert (salary.amount, salary.account) == (Decimal("-2310.00"), "NL12INGB0001234567")
    wage, bakery = loaded("sparkasse.csv")
    assert (wage.amount, bakery.amount) == (Decimal("-2500.00"), Decimal("1012.50"))
    assert (bakery.counterparty, bakery.kind) == ("Bäckerei Müller", "kartenzahlung")
    assert (bakery.transaction_id, wage.transaction_id) == ("sparkasse:5", "sparkasse:7")
    assert bakery.at == datetime(2024, 2, 29, tzinfo=UTC)
    grocer, interest = loaded("hdfc.csv")
    assert (grocer.amount, interest.amount) == (Decimal("100250.50"), Decimal("-12.00"))
    assert grocer.at.date().isoformat() == "2017-06-29"
    one, two = loaded("india.csv")
    assert [each.at.isoformat() for each in (one, two)] == [
        "2016-08-02T14:32:07+00:00",
        "2016-08-21T00:07:05+00:00",
    ]
    assert (one.account, one.amount) == ("C5841053", Decimal("25.00"))


def test_a_statement_has_lines_of_which_no_money_moved() -> None:
    coffee, salary = loaded("boa.csv")  # neither the balance at the beginning
    assert (coffee.amount, salary.amount) == (Decimal("1234.50"), Decimal("-2500.00"))
    [groceries] = loaded("revolut.csv")  # nor a payment that was reverted
    assert (groceries.amount, groceries.counterparty) == (Decimal("12.50"), "Lidl")


def test_amounts_may_be_marked_as_debits_and_credits() -> None:
    cash, salary = loaded("sbi.csv")
    assert (cash.amount, salary.amount) == (Decimal("1000.00"), Decimal("-2000.00"))


def test_ieee_is_read_with_its_seconds_and_frauds() -> None:
    one, two = loaded("ieee.csv")
    assert (one.transaction_id, one.account, one.kind, one.is_fraud) == ("2987000", "13926", "w", False)
    assert (two.amount, two.is_fraud) == (Decimal("445.00"), True)
    assert two.at - one.at == timedelta(seconds=3360)


def test_a_folder_and_an_archive_are_read_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((DATA / "paysim.csv").read_bytes()))
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.write(DATA / "banksim.csv", "data/banksim.csv")
        archive.writestr("__MACOSX/data/._banksim.csv", b"\0\1")
    (tmp_path / "._a.csv").write_bytes(b"\0\1")
    found = list(loader.load(tmp_path))
    assert Counter(each.transaction_id.split(":")[0] for each in found) == {"a": 6, "banksim": 2}
    assert [each.at for each in found] == sorted(each.at for each in found)


@pytest.mark.parametrize(
    ("lines", "line", "words"),
    [
        (["account,date,amount", "A,2024-01-02,1.00", "A,2024-13-02,1.00"], 3, "not a time"),
        (["account,date,amount", "A,2024-01-02,1.0x"], 2, "'1.0x' is not an amount"),
        (["account,date,amount", "A,2024-01-02,"], 2, "no amount"),
        (["account,date,amount", ",2024-01-02,1.00"], 2, "no account"),
        (["account,date,amount", "A,2024-01-02"], 2, "2 columns"),
        (["account,date,amount,is_fraud", "A,2024-01-02,1,maybe"], 2, "neither yes nor no"),
        (["account,date,amount", "A,01/02/2024,1.00"], 2, "day-first or month-first"),
        (["account,date,amount", "A,13/02/2024,1.00", "A,02/14/2024,1.00"], 3, "not day-first"),
        (["account,when,much", "A,2024-01-02,1"], 1, "no column"),
        (["account,date,amount", 'A,2024-01-02,"1'], 2, "not valid CSV"),
        (["step,type,amount,nameOrig,oldbalanceOrg", "one,DEBIT,1,C1,2"], 2, "'one' is not a time"),
        (["step,amount,nameOrig,oldbalanceOrg", "50,1,C1,2", "1,1,C1,2"], 3, "01-01 00:00 comes after"),
    ],
)
def test_a_wrong_line_is_named_with_its_file(tmp_path: Path, lines: list[str], line: int, words: str) -> None:
    path = written(tmp_path, *lines)
    error = refusal(path)
    assert words in error.what
    assert (error.file, error.line) == (str(path), line)
    assert error.hint


def test_a_file_that_is_missing_empty_or_broken_is_named(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "none.csv").what
    assert "no transactions" in refusal(written(tmp_path, "account,date,amount")).what
    (tmp_path / "broken.zip").write_bytes(b"PK no")
    assert "cannot be unpacked" in refusal(tmp_path / "broken.zip").what


def test_ambiguous_dates_are_read_as_the_caller_says(tmp_path: Path) -> None:
    path = written(tmp_path, "account,date,amount", "A,01/02/2024,1.00")
    assert [each.at.month for each in loader.load(path, dates="day-first")] == [2]
    assert [each.at.month for each in loader.load(path, dates="month-first")] == [1]


def test_the_simulated_bank_is_the_same_for_a_seed_and_its_balances_add_up() -> None:
    one, again, other = (list(simulator.simulate(seed, days=3)) for seed in (7, 7, 8))
    assert one == again != other
    balance: dict[str, Decimal] = {}
    for each in one:
        assert each.balance_before == balance.get(each.account, Decimal(0))
        balance[each.account] = each.balance_before - each.amount
    assert [each.at for each in one] == sorted(each.at for each in one)
    assert {each["account"]: each["balance"] for each in truth.balances(one)} == balance


def test_balances_are_right_to_the_cent_in_every_gear(gearshift_run: Run) -> None:
    results = gearshift_run(bank.app, bank.balance_accounts, {"transactions": DAYS}, **AWKWARD)
    results.assert_each(truth.balances(DAYS))
    assert results.gears == EVERY_GEAR


def test_bursts_of_payments_are_the_same_in_every_gear_and_in_plain_python(gearshift_run: Run) -> None:
    expected = truth.bursts(DAYS)
    assert len(expected) > 1
    results = gearshift_run(bank.app, bank.velocity, {"transactions": DAYS}, **AWKWARD)
    results.assert_each(expected, key=("account", "since"))
    assert results.gears == EVERY_GEAR


def test_the_history_has_every_transaction_once(gearshift_run: Run) -> None:
    results = gearshift_run(bank.app, bank.keep_history, {"transactions": DAYS}, **AWKWARD)
    results.assert_each(DAYS)
    assert {gear: len(results[gear]) for gear in results.gears} == dict.fromkeys(EVERY_GEAR[:2], len(DAYS))


def scorer_of(row: dict[str, Any], spark: SparkSession) -> Callable[[Any], float]:
    """The score of a saved model in plain Python."""
    saved = model.load(spark, row["folder"])
    regression = saved.stages[-1]
    return truth.scorer(saved.stages[0].labels, list(regression.coefficients), regression.intercept)


def test_models_are_judged_beside_the_rules_on_held_back_days_and_every_gear_scores_with_the_newest_approved_one(
    gearshift_run: Run, gearshift_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bank, "MODELS", tmp_path)
    trained = gearshift_run(bank.app, bank.train, {"history": [asdict(each) for each in WEEKS]})
    rows = sorted(trained[Gear.BATCH], key=lambda row: row["judged_until"])
    assert [row["judged_until"] for row in rows] == [MONDAY + WEEK, MONDAY + 2 * WEEK]
    for row in rows:
        known = [each for each in WEEKS if each.at < row["judged_until"]]
        seen = [each for each in known if each.at < row["judged_until"] - timedelta(days=2)]
        held_back = known[len(seen) :]
        score = scorer_of(row, gearshift_spark)
        scores = {each.transaction_id: score(each) for each in held_back}
        ours = truth.judged(held_back, {name: found >= 0.5 for name, found in scores.items()})
        rules = truth.judged(held_back, truth.by_rules(known))
        assert row == {
            "interval_start": (row["judged_until"] - WEEK).isoformat(),
            "version": row["version"],
            "folder": (tmp_path / row["version"]).as_uri(),
            "trained_until": row["judged_until"] - timedelta(days=2),
            "judged_until": row["judged_until"],
            "rows": len(seen),
            "frauds": sum(each.is_fraud for each in seen),
            "held_back": len(held_back),
            **ours,
            "auc": pytest.approx(truth.auc(held_back, scores)),
            **{f"rules_{name}": value for name, value in rules.items()},
            "approved": truth.f1(ours) >= truth.f1(rules),
        }
    approved = {**rows[0], "approved": True}
    newer = {**rows[1], "approved": False, "folder": "file:///nowhere"}
    results = gearshift_run(
        bank.app, bank.score, {"transactions": DAYS, "models": [approved, newer]}, **AWKWARD
    )
    score = scorer_of(approved, gearshift_spark)
    results.assert_each(
        [
            {
                "transaction_id": each.transaction_id,
                "version": approved["version"],
                "score": pytest.approx(score(each), rel=1e-6, abs=1e-12),
                "is_suspicious": score(each) >= 0.5,
                "amount": each.amount,
            }
            for each in DAYS
        ],
        key="transaction_id",
    )
    assert results.gears == EVERY_GEAR


def test_without_an_approved_model_the_rules_decide(gearshift_transform: Transform) -> None:
    found = gearshift_transform(bank.app, bank.score, {"transactions": DAYS, "models": []})
    assert {(each.transaction_id, each.version, each.score, each.is_suspicious) for each in found} == {
        (each.transaction_id, "rules", None, truth.is_suspicious(each)) for each in DAYS
    }


def test_an_investigator_gets_one_alert_per_transaction_and_per_burst(gearshift_deliver: Deliver) -> None:
    scored = [
        bank.Scored("t1", "a", Decimal("900.00"), MONDAY, "2024-W10-0", 0.97, True),
        bank.Scored("t2", "a", Decimal("9.00"), MONDAY, "2024-W10-0", 0.01, False),
        bank.Scored("t3", "b", Decimal("1900.00"), MONDAY, "rules", None, True),
    ]
    alerts = gearshift_deliver(bank.app, bank.alert_transaction, [*scored, *scored]).values
    assert sorted((each.subject, each.reason) for each in alerts) == [
        ("t1", "2024-W10-0: 97%"),
        ("t3", "rules"),
    ]
    bursts = [bank.Burst("a", MONDAY, payments, Decimal("7.10")) for payments in (5, 6, 7)]
    [alert] = gearshift_deliver(bank.app, bank.alert_burst, bursts).values
    assert (alert.subject, alert.reason) == ("2024-03-04T00:00", "5 payments of 7.10 in 10 minutes")


def test_a_new_model_is_taken_up_by_the_running_pipeline_and_no_transaction_is_lost(
    unique: str, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bank, "MODELS", tmp_path / "models")
    settings = settings.model_copy(update={"checkpoint_interval": timedelta(minutes=4)})
    app = gs.App(unique)
    arriving = app.topic(f"{unique}-transactions", value=Transaction, key="account", partitions=2)
    scored = app.topic(f"{unique}-scored", value=bank.Scored, key="account", partitions=2)
    history, models = app.table("history", key="transaction_id"), app.table("models")
    app.pipeline(arriving, to=history, freshness="10 seconds")(bank.keep_history)
    weekly = app.pipeline(
        {"of_week": history, "history": history},
        to=models,
        freshness="1 week",
        event_time={"of_week": "at"},
    )
    weekly(bank.train)
    sources = {"transactions": arriving, "models": models}
    app.pipeline(sources, to=scored, freshness="1 second", refresh="10 seconds")(bank.score)
    sent: list[Any] = []

    def send(producer: Producer, those: list[Any]) -> None:
        sent.extend(those)
        for each in those:
            producer.send(arriving, each)
        producer.flush()

    # The scheduler runs every week up to now, so these weeks are the last ones.
    weeks = list(simulator.simulate(first=simulator.last_weeks(datetime.now(UTC).date()), days=21))
    first = [each for each in weeks if each.at < weeks[0].at + WEEK]
    second = [each for each in weeks if weeks[0].at + WEEK <= each.at < weeks[0].at + 2 * WEEK]
    third = weeks[len(first) + len(second) :]
    with Runner(app, settings) as runner, Producer(runner.context.connection) as producer:
        connection, ledger = runner.context.connection, runner.supervisors["score"].ledger

        def has_scored(versions: int, rest: Iterator[Any]) -> bool:
            send(producer, [next(rest)])  # a version is seen once it has scored something
            return len({each.version for each in values(connection, scored)} - {"rules"}) >= versions

        send(producer, first)
        eventually(lambda: len(values(connection, scored)) == len(sent), every=1)
        # Only the newest model scores: each week's has to, before the next week is complete.
        rest = iter(second)
        eventually(lambda: has_scored(1, rest), every=0.5)
        send(producer, list(rest))
        rest = iter(third)
        eventually(lambda: has_scored(2, rest), every=0.5)
        send(producer, list(rest))
        eventually(lambda: len(values(connection, scored)) == len(sent), every=1)
        assert ledger.gap == 0
        assert ledger.replayed == 0
        assert "table models changed" in {run.why for run in ledger.runs}
    found = Counter(each.transaction_id for each in values(connection, scored))
    assert found == Counter(each.transaction_id for each in sent)


def test_the_demo_trains_scores_alerts_and_ends_well(tmp_path: Path) -> None:
    told = tell("bank_fraud", tmp_path)
    assert "score: real-time → near-real-time" in told.output
    assert "score: near-real-time → real-time" in told.output
    [(repeated,)] = told.ask("SELECT count(*) - count(DISTINCT transaction_id) FROM history")
    assert repeated == 0
    [(trained,)] = told.ask("SELECT count(*) FROM models WHERE rows > 0 AND folder LIKE '%' || version")
    assert trained > 0
