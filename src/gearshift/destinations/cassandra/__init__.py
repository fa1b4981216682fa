"""Cassandra: rows upserted by key."""
