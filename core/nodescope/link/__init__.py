"""The debuggee's end of the wire to the server."""
