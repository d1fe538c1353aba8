"""Packed tables, read back: checked, looked up, and made into a Table again."""
