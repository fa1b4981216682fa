"""`gearshift demo bank_fraud`: four weeks of a bank, a better model each week, alerts, and balances to the cent."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from demos import Board, SqlBoard, story

JUDGED = """
    SELECT version, rows AS trained_on, precision, recall, auc, rules_precision, rules_recall, approved
    FROM models ORDER BY judged_until DESC"""

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="gearshift-models-") as models:
        os.environ.setdefault("BANK_FRAUD_MODELS", models)
        sys.exit(
            story(
                Path(__file__).with_name("bank_fraud.py"),
                title="Bank transactions and fraud: a better model each week, taken up while payments flow",
                boards=[
                    Board(
                        "Fraud alerts",
                        "fraud-alerts",
                        ("account", "reason", "subject"),
                        key=("account", "subject"),
                        rows=8,
                    ),
                    Board(
                        "Balances", "balances", ("account", "balance", "transactions"), key="account", rows=8
                    ),
                    Board(
                        "The last transaction that each version scored",
                        "scored-transactions",
                        ("version", "at", "amount", "score"),
                        key="version",
                        rows=4,
                    ),
                    SqlBoard("Models and rules, judged on the same held-back days", JUDGED, rows=4),
                ],
                shifts=[("score", "near-real-time"), ("score", "real-time")],
                seconds=45,
            )
        )
