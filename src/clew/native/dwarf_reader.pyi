from collections.abc import Callable

from clew.errors import Problem
from clew.native.dwarf_assemble import Assembler
from clew.native.dwarf_files import FileBook
from clew.native.dwarf_lines import LineReader
from clew.native.dwarf_names import NameFinder
from clew.native.dwarf_ranges import RangeReader
from clew.native.dwarf_scopes import ScopeWalker
from clew.native.dwarf_units import UnitTable

class UnitReader:
    units: UnitTable
    walker: ScopeWalker
    names: NameFinder
    lines: LineReader
    files: FileBook
    claims: RangeReader
    address_ranges: dict[int, list[tuple[int, int]]]
    problems: list[tuple[str, int, str] | Problem]
    def __init__(
        self,
        units: UnitTable,
        walker: ScopeWalker,
        names: NameFinder,
        lines: LineReader,
        files: FileBook,
        claims: RangeReader,
    ) -> None: ...
    def string(self, unit: int, attribute: int) -> str | None: ...
    def has_code(self, unit: int) -> bool: ...
    def is_skeleton(self, unit: int) -> bool: ...
    def set_bases(self, unit: int, ranges: RangeReader) -> None: ...
    def read_claim(self, unit: int) -> bool: ...
    def read(self, unit: int, assembler: Assembler) -> None: ...
    def read_units(self, first: int, end: int, assembler: Assembler, progress: Callable[[int], None]) -> list[int]: ...
    def put_together(
        self,
        unit: int,
        walker: ScopeWalker,
        names: NameFinder,
        part: int,
        assembler: Assembler,
        section: str = ".debug_info",
    ) -> None: ...
