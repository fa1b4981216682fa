"""Deliveries of a running app: their consumers as processes."""
