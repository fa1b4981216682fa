"""Simulated sources: generated values, sent at the rate of a simulated day."""
