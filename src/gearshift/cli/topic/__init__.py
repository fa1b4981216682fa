"""`gearshift topic`: its commands, and what they share."""
