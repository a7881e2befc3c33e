"""The fast path of the Python tap: compares a step with an earlier one; see `follower`."""
