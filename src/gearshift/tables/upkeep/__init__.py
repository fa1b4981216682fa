"""Compaction, vacuum and rewriting of tables."""
