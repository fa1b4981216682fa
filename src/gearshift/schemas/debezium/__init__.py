"""Debezium's change events as typed changes."""
