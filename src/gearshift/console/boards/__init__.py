"""Boards: from the records of topics and the rows of tables to what panels show."""
