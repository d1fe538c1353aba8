from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clew.native.textbuffer import TextBuffer

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

class SymbolText(TextBuffer):
    def __init__(
        self,
        functions: Sequence[npt.NDArray[Any]],
        lines: Sequence[npt.NDArray[Any]],
        inlines: Sequence[npt.NDArray[Any]],
        files: int,
        names: int,
    ) -> None: ...
    def used(self) -> tuple[U32, U32]: ...
    def number(self, files: U32, names: U32) -> None: ...
    def begin(self, first: int, end: int, names: bytes, bounds: npt.NDArray[np.int64]) -> None: ...
    def more(self) -> bytes: ...
    def publics(
        self, address: U64, parameter: U32, multiple: U8, names: bytes, bounds: npt.NDArray[np.int64]
    ) -> bytes: ...
