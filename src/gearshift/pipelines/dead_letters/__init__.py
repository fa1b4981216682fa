"""Dead letters of pipelines: pending in the ledger until they are written or lost."""
