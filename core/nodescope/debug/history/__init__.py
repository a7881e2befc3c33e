"""History: moving through what was recorded, and showing it."""
