import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from clew.native.dwarf_line_program import LineProgram

NONE: int
INLINE: int
STR: int
LINE_STR: int
SUPPLEMENTARY: int
INDEXED: int

_Table = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64], npt.NDArray[np.uint32]]

class LineTables(LineProgram):
    error: str | None
    @property
    def directories(self) -> _Table: ...
    @property
    def files(self) -> _Table: ...
    def __init__(self, data: Buffer, big: bool, offset: int | None = None) -> None: ...
    def read(self, offset: int) -> None: ...
