"""DWARF debugging information: what symbols need of it (DWARF 2 to 5)."""
