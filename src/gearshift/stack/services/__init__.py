"""The local services, one file each: configuration, start command and readiness check."""
