"""What a pipeline can run in, and whether it can resume from its checkpoint."""
