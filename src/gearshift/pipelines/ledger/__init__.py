"""The ledger: which gear ran over which offsets, and the proof that nothing was lost."""
