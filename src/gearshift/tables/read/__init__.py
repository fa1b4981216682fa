"""Reading the rows of a table's version, with Spark or DuckDB."""
