"""The benchmark commands: `python -m bench [name ...]`, one file per group of rows."""
