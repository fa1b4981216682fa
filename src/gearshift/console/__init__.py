"""The console: one HTTP server with the pages, the JSON API, `/metrics` and `/health`, for people and for the command line."""
