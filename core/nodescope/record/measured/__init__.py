"""Statistics of noted outputs, in the table ``measured``: many in one row, by column."""
