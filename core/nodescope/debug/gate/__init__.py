"""The gate: holds the program's threads for the session, the only code that blocks them."""
