"""PostgreSQL: rows and their offsets in one transaction."""
