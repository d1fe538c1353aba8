"""Which files are Go's, and where the functions of its runtime are in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from weakref import WeakKeyDictionary

from clew.errors import Error
from clew.image import Image
from clew.target.model import Module

_is_go: WeakKeyDictionary[Image, bool] = WeakKeyDictionary()
_names: WeakKeyDictionary[Image, dict[frozenset[str], Mapping[int, tuple[int, str]]]] = WeakKeyDictionary()


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


def go_names(module: Module, names: frozenset[str]) -> Mapping[int, tuple[int, str]]:
    """The functions of a file of Go's that have these names: start, in the file's addresses, to end and name."""
    image = module.image
    if image is None or not is_go(module):
        return {}
    known = _names.setdefault(image, {})
    if names not in known:
        known[names] = dict(_found(image, sorted(names)))
    return known[names]


def _found(image: Image, names: Iterable[str]) -> Iterable[tuple[int, tuple[int, str]]]:
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
    return [(address, (address + size, name)) for address, size, name in found if address and size]
