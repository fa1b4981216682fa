"""Deliveries: consumer groups that poll, transform, write and commit."""
