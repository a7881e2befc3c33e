"""The runs that the server knows: live and recorded, their debuggees and branches."""
