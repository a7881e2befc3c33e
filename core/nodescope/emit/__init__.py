"""What every emitter of events has in common: places, steps, identity, failures, edits."""
