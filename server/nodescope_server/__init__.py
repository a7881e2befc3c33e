"""The server: lists runs, guards the door, carries records and commands to and from browsers."""
