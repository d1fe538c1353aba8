"""A Table as x86-64 machine code: the function of :mod:`clew.write.c`, without a compiler.

Dispatched by page: the address selects a page of 256 bytes, the page its few rows, one vector comparison among those the row,
and the row the body to jump to. So a look-up has one jump that depends on the address, where a tree has fifteen; and a row
takes three bytes.
"""

from clew.write.assembler.elf import shared_object
from clew.write.assembler.function import Assembled, assemble

__all__ = ["Assembled", "assemble", "shared_object"]
