"""Writing tables: appends, overwrites, upserts, and the commits that make them visible."""
