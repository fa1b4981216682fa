"""Spark: the session, its Java process, its jobs, and Gearshift's functions inside it."""
