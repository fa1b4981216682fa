"""The schema registry of the local stack: Confluent's API for Avro and JSON Schema, stored in SQLite."""
