"""The debuggee's end of the connection to the server."""
