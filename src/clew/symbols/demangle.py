"""Names as people write them."""

from __future__ import annotations

from functools import lru_cache

# What the manglings begin with: Itanium C++ (also with the extra underscore of Mach-O), Rust v0, Microsoft C++.
_MANGLED = ("_Z", "__Z", "_R", "?")
#: A longer name is left as it is: demangling may take time and memory out of proportion to it.
_LONGEST = 4096


@lru_cache(maxsize=65536)
def demangle(name: str) -> str:
    """A symbol's name demangled (C++ of Itanium's ABI and of Microsoft's, Rust); one that is not, or not properly, as it is.

    >>> demangle("_ZNSt6vectorIiSaIiEE9push_backEOi")
    'std::vector<int, std::allocator<int>>::push_back(int&&)'
    >>> demangle("main")
    'main'
    """
    if not name.startswith(_MANGLED) or len(name) > _LONGEST:
        return name
    import pydemumble

    if name.startswith("?"):
        # Microsoft's names are full of at signs, and have no versions.
        return pydemumble.demangle(name) or name
    # A suffix such as .cold or .isra.0 is the compiler's, and stays; a symbol version is the linker's.
    base, at, version = name.partition("@")
    return (pydemumble.demangle(base) or base) + at + version
