"""Records in pipelines: a topic's bytes to rows, and rows to a topic's records."""
