"""The session: all decisions of the debugger, as pure functions of state and input."""
