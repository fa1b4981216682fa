"""Deliveries under faults: every record is numbered, and a ledger counts what was lost, came twice or out of order."""
