"""The watch rules: one file per rule, or per table of rules that differ by a number."""
