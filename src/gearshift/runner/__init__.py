"""Starts an app: stack → topics → pipelines → sources; stops in reverse."""
