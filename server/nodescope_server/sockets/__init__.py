"""WebSockets: the endpoints for browsers and for debuggees."""
