"""The server: lists runs, guards the door, and carries records and commands to and from browsers."""
