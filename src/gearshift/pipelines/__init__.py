"""PySpark pipelines: read, transform, write; three gears, the shift between them and the ledger that proves it.

Only the modules that run queries import pyspark: `ledger/` does not, so that `gearshift ledger` starts quickly.
"""
