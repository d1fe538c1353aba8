"""Which files are Go's, and where the functions of its runtime are in them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from clew.errors import Error
from clew.image import Image
from clew.target.model import Module


class Functions:
    """Functions by address: a damaged file may have any number of one name.

    Args:
        found: start and end, in the file's addresses, and name of each. Of those that overlap, the one that starts last counts.
    """

    def __init__(self, found: Iterable[tuple[int, int, str]]) -> None:
        self._found = sorted(found)
        self._starts = [start for start, _, _ in self._found]

    def at(self, address: int) -> tuple[int, str] | None:
        """Where the function begins that an address is in, and its name; None where it is in none of these."""
        index = bisect_right(self._starts, address) - 1
        if index < 0 or address >= self._found[index][1]:
            return None
        start, _, name = self._found[index]
        return start, name

    def meet(self, start: int, end: int) -> bool:
        """Whether an address from start to end, both included, may be in one of these."""
        inside = bisect_left(self._starts, start) < bisect_right(self._starts, end)
        return inside or self.at(start) is not None


_NONE = Functions(())
_is_go: WeakKeyDictionary[Image, bool] = WeakKeyDictionary()
_functions: WeakKeyDictionary[Image, dict[frozenset[str], Functions]] = WeakKeyDictionary()


def is_go(module: Module) -> bool:
    """Whether the file of a module is Go's."""
    image = module.image
    if image is None:
        return False
    known = _is_go.get(image)
    if known is None:
        try:
            known = image.section(".gopclntab") is not None or image.section(".note.go.buildid") is not None
        except Error:
            known = False
        _is_go[image] = known
    return known


def go_functions(module: Module, names: frozenset[str]) -> Functions:
    """The functions of a file of Go's that have these names; none in other files."""
    image = module.image
    if image is None or not is_go(module):
        return _NONE
    known = _functions.setdefault(image, {})
    if names not in known:
        known[names] = Functions(_found(image, sorted(names)))
    return known[names]


def _found(image: Image, names: Iterable[str]) -> Iterable[tuple[int, int, str]]:
    try:
        symbols = image.symbols()
        found = [
            (int(symbols.address[index]), int(symbols.size[index]), name)
            for name in names
            for spelling in (name, name + ".abi0")
            for index in symbols.find(spelling)
        ]
    except Error:
        return []
    return [(address, address + size, name) for address, size, name in found if address and size]
