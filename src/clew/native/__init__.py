"""The compiled core: plain Python files that Cython compiles, bounds checks on.

Each module here runs in either form with the same result. ``CLEW_PURE=1`` in the environment runs the Python files even
where compiled ones exist, which is what the tests compare and what debuggers and coverage want.
"""

from __future__ import annotations

import os
import sys

if os.environ.get("CLEW_PURE"):
    from importlib.machinery import PathFinder, SourceFileLoader
    from importlib.util import spec_from_file_location

    class _SourceFinder:
        """Finds the modules of this package as source, past the extension modules beside them."""

        @staticmethod
        def find_spec(name, path=None, target=None):  # type: ignore[no-untyped-def]
            if not name.startswith(f"{__name__}."):
                return None
            file = os.path.join(os.path.dirname(__file__), f"{name.rpartition('.')[2]}.py")
            if not os.path.exists(file):
                return None
            return spec_from_file_location(name, file, loader=SourceFileLoader(name, file))

    sys.meta_path.insert(sys.meta_path.index(PathFinder), _SourceFinder)


def compiled() -> bool:
    """Whether the core runs compiled here (False: the same code, interpreted, some hundred times slower)."""
    from clew.native import cursor

    return cursor.COMPILED
