"""Ingests records over HTTP: POST /topics/NAME."""
