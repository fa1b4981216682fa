"""The gearbox of a running app: measures, asks for a decision, and shifts."""
