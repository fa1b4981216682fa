"""Jars and archives: listed in a lock file, downloaded once per user, verified."""
