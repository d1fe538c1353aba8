"""Split units: the files that hold what skeletons leave out, one for each unit or a package of all."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from clew.errors import Problem
from clew.image import Image
from clew.symbols.dwarf.package import Package
from clew.symbols.dwarf.sections import DwarfSections
from clew.symbols.found import DebugFile

#: Split files that are kept open.
_MOST_OPEN = 64

FindFile = Callable[[str, str | None], DebugFile]
FindPackage = Callable[[], DebugFile]


class Splits:
    """Finds the sections of split units.

    Args:
        find_package: finds the package of the program.
        find_file: finds the file of a unit, by DW_AT_dwo_name and DW_AT_comp_dir.

    Attributes:
        missing: names of files that were not found.
        problems: what is wrong with those that were.
    """

    def __init__(self, find_package: FindPackage | None = None, find_file: FindFile | None = None) -> None:
        self._find_package = find_package
        self._find_file = find_file
        self._open: dict[tuple[str, str | None], DwarfSections] = {}
        self.missing: set[str] = set()
        self.problems: list[Problem] = []

    def find(self, identity: int, name: str, directory: str | None) -> DwarfSections | None:
        """The sections of a unit, or None where its file is not there.

        Args:
            identity: the id that the skeleton and the unit share.
        """
        image, package = self._package
        if image is not None and package is not None:
            parts = package.find(identity)
            if parts is not None:
                return DwarfSections(image, ".dwo", parts)
        if not name or self._find_file is None:
            return None
        key = name, directory
        if key not in self._open:
            if name in self.missing:
                return None
            found = self._find_file(name, directory)
            if found.image is None:
                self.missing.add(name)
                return None
            if len(self._open) >= _MOST_OPEN:
                # The bytes that somebody still holds stay valid.
                self._open.pop(next(iter(self._open))).image.close()
            self._open[key] = DwarfSections(found.image, ".dwo")
        return self._open[key]

    @cached_property
    def _package(self) -> tuple[Image | None, Package | None]:
        found = DebugFile(None) if self._find_package is None else self._find_package()
        if found.image is None:
            return None, None
        package = Package(found.image)
        self.problems.extend(package.problems)
        return found.image, package


NO_SPLITS = Splits()
"""Finds none."""
