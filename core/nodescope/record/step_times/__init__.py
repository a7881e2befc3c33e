"""Step times: where the time of steps went, summed while recording, a block of steps at a time."""
