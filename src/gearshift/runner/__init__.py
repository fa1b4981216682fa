"""Starts an app: stack → topics → captures → pipelines → deliveries → sources; stops in reverse."""
