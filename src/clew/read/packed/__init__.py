"""Packed tables, read back: checked, looked up, and made into a Table again."""

from clew.read.packed.table import PackedTable as PackedTable
from clew.read.packed.table import is_packed as is_packed

__all__ = ["PackedTable", "is_packed"]
