"""Skew of a topic: a sample of its records, its hot keys, and a verdict."""
