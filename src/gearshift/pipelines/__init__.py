"""PySpark pipelines: read, transform, write; three gears, the shift between them and the ledger that proves it.

This is the only folder that imports pyspark, and only the modules that run queries do:
`ledger` and `checkpoint` are plain, so that `gearshift ledger` answers at once.
"""
