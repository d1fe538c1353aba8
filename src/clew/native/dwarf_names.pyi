import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from clew.native.dwarf_units import UnitTable

class NameFinder:
    units: UnitTable
    names: list[str]
    problems: list[tuple[int, str]]
    supplement: NameFinder | None
    def __init__(
        self,
        units: UnitTable,
        strings: Buffer,
        line_strings: Buffer,
        offsets: Buffer,
        together: NameFinder | None = None,
    ) -> None: ...
    def set_base(self, unit: int, base: int) -> None: ...
    def name_of(self, die: int) -> str | None: ...
    def string(self, unit: int, form: int, value: int) -> str | None: ...
    def number(self, dies: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]: ...
    def add(self, name: str | None) -> int: ...
