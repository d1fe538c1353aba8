from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from clew.errors import Problem
from clew.native.dwarf_line_program import LineProgram

NO_FILE: int
SECTION: str

class LineRows(NamedTuple):
    address: npt.NDArray[np.uint64]
    line: npt.NDArray[np.uint32]
    file: npt.NDArray[np.uint32]
    discriminator: npt.NDArray[np.uint32] | None
    problems: list[Problem]
    defined: tuple[int, ...]
    end: int

class LineReader(LineProgram):
    def __init__(
        self,
        data: Buffer,
        big: bool = False,
        code_start: npt.ArrayLike | None = None,
        code_end: npt.ArrayLike | None = None,
        discriminators: bool = False,
        merge: bool = False,
    ) -> None: ...
    def read(self, offset: int, address_size: int = 8) -> LineRows: ...
