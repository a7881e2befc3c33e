"""Elements of noted outputs, in the tables ``pack`` and ``chunk``: many arrays in a row."""
