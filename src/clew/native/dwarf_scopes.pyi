import numpy as np
import numpy.typing as npt

from clew.native.dwarf_ranges import RangeReader
from clew.native.dwarf_units import UnitTable

U16 = npt.NDArray[np.uint16]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

ALT: int

class ScopeWalker:
    units: UnitTable
    ranges: RangeReader
    count: int
    problems: list[tuple[int, str]]
    def __init__(self, units: UnitTable, ranges: RangeReader) -> None: ...
    def walk(self, unit: int) -> tuple[int, str] | None: ...
    def columns(self) -> tuple[U64, U16, U32, U32, U32, U16]: ...
