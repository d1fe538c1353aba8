"""clew: the unwind-table compiler."""

from clew._version import __version__

__all__ = ["__version__"]
