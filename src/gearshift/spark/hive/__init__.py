"""Hive's metastore, through the client in Spark's Java process."""
