"""Stored elements: many arrays in a row, which give way within the budget, and what waits."""
