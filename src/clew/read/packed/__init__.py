"""Packed tables, read back: checked, looked up, and made into a Table again."""

from clew.read.packed.table import PackedTable as PackedTable
from clew.read.packed.table import is_packed as is_packed
from clew.read.packed.table import names_packed as names_packed
from clew.read.packed.table import open_packed as open_packed

__all__ = ["PackedTable", "is_packed", "names_packed", "open_packed"]
