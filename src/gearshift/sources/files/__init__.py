"""Ingests files from a folder, each exactly once."""
