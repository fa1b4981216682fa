"""Runs a whole app while faults come and go at random, and counts what arrived: nothing lost, nothing out of order.

`python -m tests.faults.harness --seed 7 --seconds 600` prints what it did and the count of every destination.
"""
