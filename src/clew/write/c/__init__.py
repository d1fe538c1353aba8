"""A Table as C: one function that undoes one frame, and a compiler that makes a shared object of it."""

from clew.write.c.compiler import build
from clew.write.c.unwinder import source

__all__ = ["build", "source"]
