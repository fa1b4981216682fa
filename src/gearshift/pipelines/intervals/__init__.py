"""Intervals of a calendar: which are due, running one, and the log of each."""
