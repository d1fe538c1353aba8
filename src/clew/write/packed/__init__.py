"""The packed table: an unwind table as one flat, position-independent piece of memory, smaller than the section it is from."""

from clew.write.packed.cache import cache_directory as cache_directory
from clew.write.packed.cache import packed_table as packed_table
from clew.write.packed.cache import store as store
from clew.write.packed.cache import table_path as table_path
from clew.write.packed.table import packed as packed

__all__ = ["cache_directory", "packed", "packed_table", "store", "table_path"]
