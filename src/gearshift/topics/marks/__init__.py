"""Marks of processed records, in compacted topics."""
