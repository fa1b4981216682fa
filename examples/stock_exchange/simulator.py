"""A simulated exchange: one trading day of six symbols, the same for a seed.

It has what makes real feeds awkward: several trades in one millisecond at different prices, symbols that do not trade
for minutes, odd lots, fractional shares, prices of a fraction of a cent, and a crash that is followed by a recovery.
The feed delivers some ticks late, out of order and twice; `stock_exchange.py` declares how many.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from values import Tick

TICKS_PER_SECOND = 2.0
OPENS = datetime(2024, 3, 11, 13, 30, tzinfo=UTC)  # 9:30 in New York, on the first trading day of summer time
CLOSES = OPENS + timedelta(hours=6, minutes=30)
CRASH = (timedelta(minutes=3), timedelta(minutes=9))
SYMBOLS = {
    # symbol: previous close, tick size, share of the trades
    "ACME": (Decimal("182.50"), Decimal("0.01"), 40),
    "GLOBEX": (Decimal("41.07"), Decimal("0.01"), 25),
    "INITECH": (Decimal("9.885"), Decimal("0.005"), 20),
    "CRASHY": (Decimal("64.00"), Decimal("0.01"), 10),
    "PENNY": (Decimal("0.4125"), Decimal("0.0001"), 4),
    "QUIET": (Decimal("1210.00"), Decimal("0.50"), 1),
}
LOTS = (Decimal(100), Decimal(200), Decimal(1), Decimal(37), Decimal("0.25"), Decimal(1_500))


def simulate(seed: int = 7, *, until: datetime = CLOSES) -> Iterator[Tick]:
    """The ticks of the day up to `until`, in the order of the exchange."""
    chance = random.Random(f"exchange {seed}")
    prices = {symbol: close for symbol, (close, _, _) in SYMBOLS.items()}
    names, shares = list(SYMBOLS), [share for _, _, share in SYMBOLS.values()]
    at, sequence = OPENS, 0
    while True:
        # A third of the trades fall into the same millisecond as the one before: a large order meets several others.
        if chance.random() > 1 / 3:
            at += timedelta(milliseconds=1 + round(chance.expovariate(TICKS_PER_SECOND * 2 / 3) * 1_000))
        if at >= until:
            return
        symbol = chance.choices(names, shares)[0]
        close, step, _ = SYMBOLS[symbol]
        prices[symbol] = moved(prices[symbol], close, step, _drift(symbol, at - OPENS), chance)
        sequence += 1
        yield Tick(symbol, sequence, prices[symbol], chance.choice(LOTS), close, at)


def moved(price: Decimal, close: Decimal, step: Decimal, drift: float, chance: random.Random) -> Decimal:
    """The next price: some steps up or down, and back towards the previous close when it is far from it."""
    pull = float((close - price) / close) * 0.02
    share = chance.gauss(drift + pull, 0.0006)
    steps = round(price * Decimal(repr(share)) / step)
    return max(price + steps * step, step)


def _drift(symbol: str, since: timedelta) -> float:
    """The crash of one symbol: down by some percent in six minutes."""
    if symbol == "CRASHY" and CRASH[0] <= since < CRASH[1]:
        return -0.004
    return 0.0
