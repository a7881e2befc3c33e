"""The Debug Adapter Protocol: an adapter for editors, and the debuggee's end of it."""
