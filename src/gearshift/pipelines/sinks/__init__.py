"""Table targets: batches over whole tables, and rows a table cannot hold."""
