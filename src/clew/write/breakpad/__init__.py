"""Breakpad symbol files: the text that ``dump_syms`` writes and crash reporters read."""
