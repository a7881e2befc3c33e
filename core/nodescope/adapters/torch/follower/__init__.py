"""What compares a step with an earlier one where the Python tap is used; see `follower`."""
