"""Executions noted by their times alone, in the table ``timed``: many in one row, by column."""
