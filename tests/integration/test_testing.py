"""The kit that tests pipelines and deliveries, on real Kafka and Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import gearshift as gs
from gearshift.errors import DefinitionError, EncodeError, GearRefusedError, QueryError, TransformError
from gearshift.freshness import Gear
from gearshift.testing import Clock, Deliver, FakeDestination, HttpGateway, Run, SmtpGateway, Transform

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
EVERY_GEAR = (Gear.BATCH, Gear.NEAR_REAL_TIME, Gear.REAL_TIME)


@dataclass
class Tick:
    symbol: str
    price: float
    at: datetime


@dataclass
class Bar:
    symbol: str
    opens: datetime
    high: float
    ticks: int


class Side(Enum):
    BUY = "buy"
    SELL = "sell"


@dataclass
class Fill:
    venue: str
    size: float | None


@dataclass
class Order:
    number: int
    price: Annotated[Decimal, gs.DecimalOf(12, 2)]
    side: Side
    placed: datetime
    valid_on: date
    note: str | None
    proof: bytes
    fills: list[Fill]
    limits: dict[str, int]


app = gs.App("market")
orders = app.topic("orders", value=Order)
orders_again = app.topic("orders-again", value=Order)
ticks = app.topic("ticks", value=Tick, key="symbol", partitions=2)
high = app.topic("high", value=Tick, key="symbol", partitions=3)
bars = app.topic("bars", value=Bar, key="symbol")


@app.pipeline(orders, to=orders_again, freshness="1 second")
def repeat_orders(orders: DataFrame) -> DataFrame:
    return orders


@app.pipeline(ticks, to=high, freshness="1 second")
def high_ticks(ticks: DataFrame) -> DataFrame:
    return ticks.where(F.col("price") > 5)


@app.pipeline(ticks, to=bars, freshness="1 second")
def minute_bars(ticks: DataFrame) -> DataFrame:
    return (
        ticks.withWatermark("at", "2 minutes")
        .dropDuplicates(["symbol", "at"])
        .groupBy("symbol", F.window("at", "1 minute").alias("minute"))
        .agg(F.max("price").alias("high"), F.count("*").alias("ticks"))
        .select("symbol", F.col("minute.start").alias("opens"), "high", "ticks")
    )


kept = app.table("kept", key=("symbol", "at"))
names = app.table("names", key="symbol")
named = app.topic("named", value=Tick, key="symbol")
days = app.table("days")


@app.pipeline(ticks, to=kept, freshness="1 minute")
def keep_ticks(ticks: DataFrame) -> DataFrame:
    return ticks


@app.pipeline({"ticks": ticks, "names": names}, to=named, freshness="1 second")
def name_ticks(ticks: DataFrame, names: DataFrame) -> DataFrame:
    return ticks.join(F.broadcast(names), "symbol").select(F.col("name").alias("symbol"), "price", "at")


@app.pipeline(kept, to=days, freshness="1 day", event_time="at")
def daily(kept: DataFrame) -> DataFrame:
    return kept.groupBy("symbol").agg(F.count("*").alias("ticks"))


@app.pipeline(ticks, to=high, freshness="1 minute")
def divided(ticks: DataFrame) -> DataFrame:
    @F.udf("double")  # PySpark warns of type hints that are not those of pandas
    def divide(price):  # type: ignore[no-untyped-def]
        return 1 / price

    return ticks.withColumn("price", divide("price"))


@app.pipeline(ticks, to=high, freshness="1 minute")
def broken(ticks: DataFrame) -> DataFrame:
    return ticks.withColumn("price", F.col("prize"))


@app.pipeline(ticks, to=high, freshness="1 minute")
def endless(ticks: DataFrame) -> DataFrame:
    return ticks.where(F.expr("reflect('java.lang.Thread', 'sleep', 60000L) is null"))


webhook = gs.destinations.Webhook("http://127.0.0.1:1/")


@app.delivery(high, to=webhook, retry="20 seconds")
def post(tick: gs.Record[Tick]) -> dict[str, object]:
    if tick.value.price < 0:
        raise ValueError("a price is not negative")
    return {"symbol": tick.value.symbol, "price": tick.value.price}


@app.delivery(high, to=gs.destinations.Sms(account="AC", token="t", sender="+15005550006"))
def text(tick: gs.Record[Tick]) -> gs.destinations.SmsMessage:
    return gs.destinations.SmsMessage("+31600000000", f"{tick.value.symbol} is at {tick.value.price:g}")


@app.delivery(high, to=gs.destinations.Email("localhost", 1, "desk@example.org", tls="none"))
def mail(tick: gs.Record[Tick]) -> gs.destinations.EmailMessage:
    value = tick.value
    return gs.destinations.EmailMessage("owner@example.org", f"{value.symbol} is high", f"{value.price:g}")


@app.delivery(ticks, to=high)
def forward(tick: gs.Record[Tick]) -> Tick | None:
    return tick.value if tick.value.price > 5 else None


VALUES = [Tick(f"s{n % 3}", float(n % 10), NOON + timedelta(seconds=10 * n)) for n in range(60)]


def expected_bars() -> list[Bar]:
    found: dict[tuple[str, datetime], Bar] = {}
    for tick in VALUES:
        opens = tick.at.replace(second=0)
        bar = found.setdefault((tick.symbol, opens), Bar(tick.symbol, opens, tick.price, 0))
        bar.high, bar.ticks = max(bar.high, tick.price), bar.ticks + 1
    return list(found.values())


def test_a_stateless_pipeline_writes_the_same_values_in_every_gear(gearshift_run: Run) -> None:
    results = gearshift_run(app, high_ticks, {"ticks": VALUES})
    results.assert_each([tick for tick in VALUES if tick.price > 5], key=("symbol", "at"))
    assert results.gears == EVERY_GEAR
    assert [len(results[gear]) for gear in results.gears] == [24, 24, 24]


def test_late_and_repeated_values_leave_windows_right(gearshift_run: Run) -> None:
    results = gearshift_run(
        app,
        minute_bars,
        {"ticks": VALUES},
        late=0.05,
        repeated=0.1,
        disorder=timedelta(minutes=2),
    )
    results.assert_each(expected_bars(), key=("symbol", "opens"))


def test_a_table_holds_every_row_once_in_the_gears_that_write_tables(gearshift_run: Run) -> None:
    results = gearshift_run(app, "keep_ticks", {"ticks": VALUES}, repeated=0.2)
    results.assert_each(VALUES)
    assert results.gears == (Gear.BATCH, Gear.NEAR_REAL_TIME)
    assert [len(results[gear]) for gear in results.gears] == [60, 60]


def test_a_joined_table_is_given_as_rows(gearshift_run: Run) -> None:
    rows = [{"symbol": "s0", "name": "Acme"}, {"symbol": "s1", "name": "Bolt"}]
    results = gearshift_run(app, name_ticks, {"ticks": VALUES[:9], "names": rows})
    wanted = {"s0": "Acme", "s1": "Bolt"}
    results.assert_each(
        [Tick(wanted[tick.symbol], tick.price, tick.at) for tick in VALUES[:9] if tick.symbol in wanted],
        key=("symbol", "at"),
    )
    assert results.gears == EVERY_GEAR


def test_intervals_run_when_the_clock_says_that_they_are_over(
    gearshift_run: Run, gearshift_clock: Clock
) -> None:
    values = [Tick("s0", 1.0, NOON + timedelta(hours=6 * n)) for n in range(6)]
    by_rows = gearshift_run(
        app, daily, {"kept": values}, late=0.2, disorder=timedelta(hours=12), event_time="at"
    )
    by_rows.assert_each(
        [{"interval_start": f"2026-03-0{day}T00:00:00+00:00", "ticks": n} for day, n in ((2, 2), (3, 4))],
        key="interval_start",
    )
    gearshift_clock.set(datetime(2026, 3, 3, 23, tzinfo=UTC))
    assert [row["ticks"] for row in gearshift_run(app, daily, {"kept": values})["batch"]] == [2]


def test_corrupt_records_become_dead_letters_and_the_others_go_on(gearshift_run: Run) -> None:
    results = gearshift_run(app, high_ticks, {"ticks": [b"garbage", *VALUES[:10]]})
    results.assert_each([tick for tick in VALUES[:10] if tick.price > 5], key="at")
    assert set(results.dead_letters) == set(EVERY_GEAR)
    for reasons in results.dead_letters.values():
        assert len(reasons) == 1
        assert "the value begins with byte 103" in reasons[0]


def test_a_failing_pipeline_raises_its_own_error_with_file_and_line(gearshift_run: Run) -> None:
    with pytest.raises(TransformError, match="ZeroDivisionError") as raised:
        gearshift_run(app, divided, {"ticks": VALUES[:3]}, gears=["near-real-time"])
    assert raised.value.file is not None
    assert raised.value.file.endswith("test_testing.py")
    assert raised.value.__notes__ == ["in near-real-time"]
    with pytest.raises(TransformError, match="prize"):
        gearshift_run(app, broken, {"ticks": VALUES[:3]})


def test_a_gear_that_the_check_does_not_allow_raises_its_reason(gearshift_run: Run) -> None:
    with pytest.raises(GearRefusedError, match="real-time cannot run a Python UDF"):
        gearshift_run(app, divided, {"ticks": VALUES[:3]}, gears=["batch", "real-time"])


def test_a_run_that_takes_too_long_says_how_far_it_is(gearshift_run: Run) -> None:
    with pytest.raises(QueryError, match="not processed in batch within 8 s: 0 of 2 records were processed"):
        gearshift_run(app, endless, {"ticks": VALUES[:2]}, gears=["batch"], within=timedelta(seconds=8))


def test_wrong_names_and_values_are_refused_before_anything_runs(gearshift_run: Run) -> None:
    with pytest.raises(DefinitionError, match="did you mean 'minute_bars'"):
        gearshift_run(app, "minute_bar", {"ticks": []})
    with pytest.raises(DefinitionError, match=r"does not read 'tick'.*did you mean 'ticks'"):
        gearshift_run(app, minute_bars, {"tick": []})
    with pytest.raises(DefinitionError, match="no values for the topic ticks"):
        gearshift_run(app, minute_bars, {})
    with pytest.raises(EncodeError, match="value 1 of ticks"):
        gearshift_run(app, minute_bars, {"ticks": [VALUES[0], Tick("s", "dear", NOON)]})  # type: ignore[arg-type]


def test_a_transform_alone_takes_values_and_gives_values(gearshift_transform: Transform) -> None:
    assert gearshift_transform(app, high_ticks, {"ticks": VALUES}) == [
        tick for tick in VALUES if tick.price > 5
    ]
    found = gearshift_transform(app, minute_bars, {"ticks": VALUES + VALUES})
    assert sorted(found, key=lambda bar: (bar.opens, bar.symbol)) == sorted(
        expected_bars(), key=lambda bar: (bar.opens, bar.symbol)
    )
    with pytest.raises(TransformError, match="ZeroDivisionError"):
        gearshift_transform(app, divided, {"ticks": VALUES[:1]})


def test_values_of_every_type_come_back_as_they_were(gearshift_transform: Transform) -> None:
    values = [
        Order(
            number=2**60 + n,
            price=Decimal("12345.67"),
            side=Side.SELL,
            placed=NOON + timedelta(microseconds=n),
            valid_on=date(1999, 12, 31),
            note="größe" if n else None,
            proof=bytes([0, 255, n]),
            fills=[Fill("XAMS", 1.5), Fill("XNYS", None)][:n],
            limits={"a": n},
        )
        for n in range(3)
    ]
    assert gearshift_transform(app, repeat_orders, {"orders": values}) == values


def test_the_session_is_that_of_the_app(gearshift_spark: SparkSession) -> None:
    assert gearshift_spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_a_delivery_survives_a_destination_that_fails(gearshift_deliver: Deliver) -> None:
    destination = FakeDestination()
    destination.fail(2)
    destination.fail_after_effect()
    delivered = gearshift_deliver(app, post, VALUES[:5], destination=destination)
    assert sorted(value["price"] for value in delivered.values) == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert (delivered.writes, delivered.dead_letters) == (8, [])


def test_what_a_delivery_cannot_deliver_becomes_a_dead_letter(gearshift_deliver: Deliver) -> None:
    destination = FakeDestination()
    destination.fail(permanent=True)
    delivered = gearshift_deliver(
        app, post, [VALUES[0], b"garbage", Tick("s", -1.0, NOON)], destination=destination
    )
    assert len(delivered.dead_letters) == 3
    assert delivered.values == []
    text = " ".join(delivered.dead_letters)
    assert "a price is not negative" in text
    assert "failed on command" in text


def test_a_delivery_to_a_topic_gives_what_it_wrote(gearshift_deliver: Deliver) -> None:
    delivered = gearshift_deliver(app, forward, VALUES)
    assert sorted(delivered.values, key=lambda tick: tick.at) == [tick for tick in VALUES if tick.price > 5]


def test_gateways_check_the_login_and_get_each_message_once(
    gearshift_deliver: Deliver, gearshift_sms: HttpGateway, gearshift_mail: SmtpGateway
) -> None:
    gearshift_sms.fail(status=503)
    sms = gs.destinations.Sms(
        account="AC0", token="token", sender="+15005550006", url=gearshift_sms.url, idempotent=True
    )
    assert gearshift_deliver(app, text, VALUES[7:8], destination=sms).dead_letters == []
    assert [request.status for request in gearshift_sms.requests] == [503, 201]
    assert gearshift_sms.accepted[0].form["Body"] == "s1 is at 7"
    email = gs.destinations.Email(
        "127.0.0.1", gearshift_mail.port, "desk@example.org", user="tester", password="password", tls="none"
    )
    gearshift_deliver(app, mail, VALUES[7:8], destination=email)
    assert [received.message["Subject"] for received in gearshift_mail.mails] == ["s1 is high"]
