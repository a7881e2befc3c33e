"""The server's runs: live and recorded, with their debuggees and branches."""
