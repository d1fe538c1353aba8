"""The packed table: an unwind table as one flat, position-independent piece of memory, smaller than the section it is from."""

from clew.write.packed.table import packed as packed

__all__ = ["packed"]
