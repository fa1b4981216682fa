"""Rules for declarations; each violation is reported with its file and line."""
